"""The compiled core, which pyproject.toml cannot describe: its flags are those of the compiler.

Where there is no compiler the package is built without it: NumPy gives the same numbers, in more time.
"""

import sysconfig

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

#: No sum is rounded differently from NumPy's: products are not fused with sums.
FLAGS = {"msvc": ["/O2", "/std:c11", "/fp:precise"]}
OTHERS = ["-O3", "-std=c11", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"]
#: One file serves every version of Python but those without the lock, whose interface is another.
ONE_FOR_ALL = not sysconfig.get_config_var("Py_GIL_DISABLED")


class Build(build_ext):
    def build_extension(self, extension: Extension) -> None:
        extension.extra_compile_args = FLAGS.get(self.compiler.compiler_type, OTHERS)
        extension.libraries = [] if self.compiler.compiler_type == "msvc" else ["m"]
        super().build_extension(extension)


class Wheel(bdist_wheel):
    def finalize_options(self) -> None:
        if ONE_FOR_ALL:
            self.py_limited_api = "cp311"
        super().finalize_options()


setup(
    cmdclass={"build_ext": Build, "bdist_wheel": Wheel},
    ext_modules=[
        Extension(
            "ulmus._core",
            [f"src/core/{name}.c" for name in ("module", "boosting", "distances", "trees")],
            depends=["src/core/core.h", "src/core/trees.h"],
            define_macros=[("Py_LIMITED_API", "0x030B0000")] if ONE_FOR_ALL else [],
            py_limited_api=ONE_FOR_ALL,
            optional=True,
        )
    ],
)
