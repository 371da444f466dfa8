# SPDX-License-Identifier: Apache-2.0

"""Virtual machines in QEMU: another kernel with the files of this machine.

The test chooses the cgroups of the virtual machine, and whether its first
process is systemd. The virtual machine reads the files of this machine, but
not those in /tmp; its writes stay in its memory. The tests need root, QEMU
with virtiofsd, busybox, cpio, and the kernel that tools/kernel unpacks.
"""

import contextlib
import os
import pathlib
import shutil
import subprocess

TIMEOUT_SECONDS = 300
#: Environment variable with the directory into which tools/kernel unpacked.
KERNEL = 'NOVA_PRIO_TEST_KERNEL'
SOURCE = pathlib.Path(__file__).resolve().parents[2]
#: Where the virtual machine has the checkout, which may be in /tmp.
CHECKOUT = pathlib.Path('/mnt')
VIRTIOFSD = ('/usr/lib/qemu/virtiofsd', '/usr/libexec/virtiofsd')
#: Kernel modules, in the order of their dependencies.
MODULES = ('virtio_ring', 'virtio', 'virtio_pci_modern_dev',
           'virtio_pci_legacy_dev', 'virtio_pci', 'fuse', 'virtiofs',
           'overlay')

# The first process. It prepares the root directory and executes a script in
# it. The kernel command line sets SETUP, the path of the script, and SOURCE,
# the path of the checkout on this machine.
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
mount -o bind "/files$SOURCE" /root%s
for tree in proc sys dev; do
    mount --move /$tree /root/$tree
done
exec switch_root /root /bin/sh $SETUP
''' % (' '.join(MODULES), CHECKOUT)


def _make_initrd(directory, kernel):
    """Write the initrd and return its path."""
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
def _serve_files(socket):
    """Serve the files of this machine on a socket during the context."""
    program = next(path for path in VIRTIOFSD if os.path.exists(path))
    process = subprocess.Popen(
        [program, '--socket-path=%s' % socket, '-o', 'source=/',
         '-o', 'cache=always', '-o', 'sandbox=chroot'],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True)
    try:
        # virtiofsd writes a line when its socket exists.
        process.stderr.readline()
        yield
    finally:
        process.kill()
        process.communicate()


def run(directory, setup, *parameters):
    """Run a virtual machine and return the text of its second serial line.

    :param directory: an empty pathlib.Path, for temporary files
    :param setup: path, in the checkout, of the script that is the first
        process after the mounts; it must switch the machine off
    :param parameters: kernel parameters; key=value without a dot are in the
        environment of the script
    :raises AssertionError: with the console output, if the machine wrote
        nothing
    """
    kernel = pathlib.Path(os.environ[KERNEL])
    image, = kernel.glob('boot/vmlinuz-*')
    written = directory / 'written'
    socket = directory / 'files'
    with _serve_files(socket):
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
                                  'SETUP=%s' % (CHECKOUT / setup),
                                  # The kernel removes the quotes.
                                  'SOURCE="%s"' % SOURCE,
                                  *parameters))],
            stdin=subprocess.DEVNULL, capture_output=True, text=True,
            errors='replace', timeout=TIMEOUT_SECONDS)
    text = written.read_text()
    assert text, done.stdout + done.stderr
    return text
