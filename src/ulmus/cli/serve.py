"""``ulmus serve``."""

from ulmus.cli.console import UsageError, say
from ulmus.cli.models import load_model
from ulmus.tables.schema import Schema


def serve(file: str, *, host: str, port: int, threads: int, max_bytes: int) -> None:
    """A model behind HTTP until it is stopped."""
    try:
        import uvicorn

        from ulmus.serving import Limits, application
    except ImportError as error:
        raise UsageError(f'serving needs more packages: pip install "ulmus[serve]" ({error})') from error
    about, model = load_model(file)
    schema = Schema.from_json(about.notes.get("table"), file)
    model[-1].n_jobs = threads
    hosts = () if host in ("127.0.0.1", "localhost") else (host,)
    app = application(model, schema, hosts=hosts, limits=Limits(max_bytes))
    say(f"{file}: http://{host}:{port}/ (POST /predict, POST /csv, GET /schema); Ctrl-C stops it")
    uvicorn.run(app, host=host, port=port, log_level="warning", access_log=False)
