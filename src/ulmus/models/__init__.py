"""The estimators: assemblies of features, solvers and codings."""
