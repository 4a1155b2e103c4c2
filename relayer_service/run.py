"""`make run`: prepare DATA_DIR, then run the web server and the worker until Ctrl-C."""

import os
import sys
from pathlib import Path

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from dotenv import load_dotenv

from relayer_service.banner import print_banner
from relayer_service.preparation import prepare_data_dir, prepare_service
from relayer_service.server import CannotStart, listen
from relayer_service.supervisor import PROJECT, Supervisor


def main() -> int:
    load_dotenv(PROJECT / ".env")
    # Files written from here on are not readable by other users of the machine.
    os.umask(0o077)
    try:
        data_dir = Path(os.environ.get("DATA_DIR") or PROJECT / "var").absolute()
        prepare_data_dir(data_dir)
        # Read by the settings of all processes.
        os.environ["DATA_DIR"] = str(data_dir)
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "relayer_service.settings")
        os.environ.setdefault("PROFILE", "local")
        listen(settings.HOST, settings.PORT).close()
        prepare_service()
    except (CannotStart, ImproperlyConfigured) as problem:
        print(f"Cannot start: {problem}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return Supervisor().run(print_banner)


if __name__ == "__main__":
    sys.exit(main())
