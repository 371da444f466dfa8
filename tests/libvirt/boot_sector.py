# SPDX-License-Identifier: Apache-2.0

"""Boot sectors for guests that start in a second, without a download."""

import pathlib
import struct

from tests.libvirt import daemon

#: Bytes of the image of a disk.
SIZE = 1024 * 1024

# A guest with all CPUs busy. The first CPU sends INIT and start-up signals to
# all others with the local APIC, which needs 32-bit addresses. All CPUs end in
# an instruction that jumps to itself; the others find it at 0x7000.
BUSY = '''
        .code16
        cli
        xorw    %ax, %ax
        movw    %ax, %ds
        movw    $0xfeeb, 0x7000
        lgdt    pointer
        movl    %cr0, %eax
        orl     $1, %eax
        movl    %eax, %cr0
        ljmpl   $8, $protected
        .code32
protected:
        movw    $16, %ax
        movw    %ax, %ds
        movl    $0xfee00000, %ebx
        movl    $0x1ff, 0xf0(%ebx)
        movl    $0xc4500, 0x300(%ebx)
        call    pause
        movl    $0xc4607, 0x300(%ebx)
        call    pause
        movl    $0xc4607, 0x300(%ebx)
spin:   jmp     spin
pause:  movl    $0x100000, %ecx
again:  loop    again
        ret
        .align  8
table:  .quad   0, 0x00cf9a000000ffff, 0x00cf92000000ffff
pointer:
        .word   23
        .long   table
'''

# A guest with all CPUs idle: the firmware starts only the first CPU.
IDLE = '''
        .code16
        cli
sleep:  hlt
        jmp     sleep
'''

# One partition in use: Nova accepts no image without one as a disk.
_PARTITION = struct.pack('<B3sB3sII', 0x80, b'\1\1\0', 0x83, b'\1\1\0', 1,
                         SIZE // 512 - 1)


def build(source, directory):
    """Build a disk image that boots into a program.

    :param source: str, BUSY or IDLE
    :param directory: ``pathlib.Path`` to build in
    :returns: ``pathlib.Path`` of a raw image
    """
    directory = pathlib.Path(directory)
    assembler, code, image = (
        directory / name for name in ('boot.o', 'boot.bin', 'boot.img'))
    source_file = directory / 'boot.s'
    source_file.write_text('.globl _start\n_start:\n' + source)
    daemon.run('as', '--32', '-o', str(assembler), str(source_file))
    daemon.run('ld', '-m', 'elf_i386', '-Ttext', '0x7c00', '--oformat',
               'binary', '-o', str(code), str(assembler))
    sector = (code.read_bytes().ljust(446, b'\0') + _PARTITION).ljust(
        510, b'\0') + b'\x55\xaa'
    if len(sector) != 512:
        raise ValueError('The program does not fit into a boot sector.')
    image.write_bytes(sector.ljust(SIZE, b'\0'))
    return image
