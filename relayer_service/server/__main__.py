import sys

from relayer_service.server.serving import main

sys.exit(main(sys.argv[1:]))
