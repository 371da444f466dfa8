# SPDX-License-Identifier: Apache-2.0

"""Commands in a Debian 13 of ``tools/debian``, which stays unchanged."""

import os
import pathlib
import subprocess

SOURCE = pathlib.Path(__file__).resolve().parents[2]
TIMEOUT_SECONDS = 1200

# The mounts end with the command, because they are in a namespace of its own.
_ENTER = r'''
directory=$1
mount -t overlay -o "lowerdir=$2,upperdir=$1/new,workdir=$1/work" \
    root "$1/root"
mount -t proc proc "$1/root/proc"
mount --rbind /dev "$1/root/dev"
mkdir -p "$1/root/mnt/source" "$1/root/mnt/shared"
mount --bind "$3" "$1/root/mnt/source"
mount -o remount,bind,ro "$1/root/mnt/source"
mount --bind "$1/shared" "$1/root/mnt/shared"
cp /etc/resolv.conf "$1/root/etc"
shift 3
exec chroot "$directory/root" "$@"
'''


class Root:
    """A Debian 13 that keeps its changes in a directory.

    Commands find the checkout, read only, at ``/mnt/source``, and the
    directory ``shared`` of this root at ``/mnt/shared``.

    :param base: pathlib.Path of the directory that ``tools/debian`` made
    :param directory: an empty pathlib.Path
    """

    def __init__(self, base, directory):
        self.base = base
        self.directory = directory
        self.shared = directory / 'shared'
        for name in ('new', 'work', 'root', 'shared'):
            (directory / name).mkdir()

    def run(self, *command, **environment):
        """Run a command, which may fail; return a CompletedProcess."""
        variables = {'DEBIAN_FRONTEND': 'noninteractive', 'HOME': '/root',
                     'LANG': 'C.UTF-8', 'LC_ALL': 'C.UTF-8',
                     'PATH': '/usr/sbin:/usr/bin:/sbin:/bin'}
        variables.update(environment)
        enter = ['/usr/bin/unshare', '--mount', '--pid', '--fork',
                 '--kill-child', '/bin/sh', '-ec', _ENTER, 'sh',
                 self.directory, self.base, SOURCE]
        return subprocess.run(
            enter + list(command), env=variables, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            timeout=TIMEOUT_SECONDS)

    def check(self, *command, **environment):
        """Run a command, which must succeed; return its output."""
        done = self.run(*command, **environment)
        assert done.returncode == 0, '%s\n%s' % (
            ' '.join(command), done.stdout[-4000:])
        return done.stdout

    def apt(self, *arguments):
        """Run apt-get, which must succeed, without questions."""
        return self.check('apt-get', '-q', '-y', *arguments)

    def list_files(self, *directories):
        """Return the files: path -> its kind, size, mode and target."""
        lines = self.check('find', *directories, '-printf',
                           '%p\t%y %s %m %l\n').splitlines()
        files = {}
        for line in lines:
            path, description = line.split('\t')
            # The size of a directory depends on its history.
            if description.startswith('d '):
                description = 'd'
            files[path] = description
        return files


def find_base(name):
    """Return the pathlib.Path of the Debian 13 in a variable.

    :param name: of the environment variable
    """
    return pathlib.Path(os.environ[name])
