# SPDX-License-Identifier: Apache-2.0

"""Whole machines: another kernel on the files of this one, in QEMU.

Such a machine has the cgroups that its test asks for, and may have systemd
as its first process. It reads this machine's files, and what it writes stays
in its memory. Needs root, QEMU with virtiofsd, busybox and cpio, and the
kernel that tools/kernel unpacks.
"""

import contextlib
import os
import pathlib
import shutil
import subprocess

TIMEOUT_SECONDS = 300
#: The directory that tools/kernel was given.
KERNEL = 'NOVA_PRIO_TEST_KERNEL'
VIRTIOFSD = ('/usr/lib/qemu/virtiofsd', '/usr/libexec/virtiofsd')
#: In the order in which they need one another.
MODULES = ('virtio_ring', 'virtio', 'virtio_pci_modern_dev',
           'virtio_pci_legacy_dev', 'virtio_pci', 'fuse', 'virtiofs',
           'overlay')

# The first process: it makes the root directory, has a script (SETUP, from
# the kernel's command line) prepare it, and hands over to it.
INIT = '''\
#!/bin/busybox sh
/bin/busybox mkdir /proc /sys /dev /files /own /root
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
for module in %s; do
    insmod /modules/$module.ko
done
mount -t virtiofs -o ro files /files
mount -t tmpfs own /own
mkdir /own/new /own/work
mount -t overlay -o lowerdir=/files,upperdir=/own/new,workdir=/own/work \
    root /root
mount -t tmpfs -o mode=755 run /root/run
mount -t tmpfs -o mode=1777 tmp /root/tmp
for tree in proc sys dev; do
    mount --move /$tree /root/$tree
done
exec switch_root /root /bin/sh $SETUP
''' % ' '.join(MODULES)


def _make_initrd(directory, kernel):
    """Write the archive that the kernel starts from; returns its path."""
    tree = directory / 'initrd'
    (tree / 'bin').mkdir(parents=True)
    (tree / 'modules').mkdir()
    shutil.copy(shutil.which('busybox'), tree / 'bin')
    for name in MODULES:
        found, = kernel.glob('lib/modules/*/kernel/**/%s.ko' % name)
        shutil.copy(found, tree / 'modules')
    init = tree / 'init'
    init.write_text(INIT)
    init.chmod(0o755)
    names = '\n'.join(str(path.relative_to(tree))
                      for path in sorted(tree.rglob('*')))
    archive = directory / 'initrd.cpio'
    with archive.open('wb') as output:
        subprocess.run(['cpio', '--create', '--format=newc', '--quiet'],
                       input=names.encode(), stdout=output, cwd=tree,
                       check=True)
    return archive


@contextlib.contextmanager
def _files(socket):
    """Serve this machine's files on a socket as long as the context lasts."""
    program = next(path for path in VIRTIOFSD if os.path.exists(path))
    process = subprocess.Popen(
        [program, '--socket-path=%s' % socket, '-o', 'source=/',
         '-o', 'cache=always', '-o', 'sandbox=chroot'],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True)
    try:
        # It says that it waits once the socket is there.
        process.stderr.readline()
        yield
    finally:
        process.kill()
        process.communicate()


def run(directory, setup, *parameters):
    """Start a machine and return what it wrote to its second serial line.

    :param directory: an empty pathlib.Path, for what it is started from
    :param setup: path of the script that is the first process after the
        files of this machine are there; what it hands over to ends the
        machine
    :param parameters: of the kernel; key=value without a dot are in the
        environment of the script
    :raises AssertionError: where the machine wrote nothing, with what it
        said on its console
    """
    kernel = pathlib.Path(os.environ[KERNEL])
    image, = kernel.glob('boot/vmlinuz-*')
    written = directory / 'written'
    socket = directory / 'files'
    with _files(socket):
        done = subprocess.run(
            ['qemu-system-x86_64', '-nodefaults', '-display', 'none',
             '-no-reboot', '-accel', 'tcg,thread=multi', '-cpu', 'max',
             '-smp', '2', '-m', '1024',
             '-object',
             'memory-backend-memfd,id=memory,size=1024M,share=on',
             '-numa', 'node,memdev=memory',
             '-chardev', 'socket,id=files,path=%s' % socket,
             '-device', 'vhost-user-fs-pci,chardev=files,tag=files',
             '-serial', 'stdio', '-serial', 'file:%s' % written,
             '-kernel', str(image),
             '-initrd', str(_make_initrd(directory, kernel)),
             '-append', ' '.join(('console=ttyS0', 'panic=-1', 'quiet',
                                  'SETUP=%s' % setup, *parameters))],
            stdin=subprocess.DEVNULL, capture_output=True, text=True,
            errors='replace', timeout=TIMEOUT_SECONDS)
    text = written.read_text()
    assert text, done.stdout + done.stderr
    return text
