# SPDX-License-Identifier: Apache-2.0

import sys

from nova_prio_host import command

if __name__ == '__main__':
    sys.exit(command.main())
