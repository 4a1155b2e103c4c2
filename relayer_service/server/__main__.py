import sys

from relayer_service.server.serving import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
