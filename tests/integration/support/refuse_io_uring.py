# SPDX-License-Identifier: Apache-2.0
"""Runs the given command where io_uring_setup is refused, as in containers: a launcher."""
import ctypes
import os
import struct
import sys

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LOAD_WORD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
SYSCALL_NUMBER = 0  # its offset in seccomp_data
IO_URING_SETUP = 425  # on every architecture
ALLOW, REFUSE_WITH = 0x7fff0000, 0x00050000
EPERM = 1


def refuse_io_uring():
    instructions = ((LOAD_WORD, 0, 0, SYSCALL_NUMBER), (JUMP_IF_EQUAL, 0, 1, IO_URING_SETUP),
                    (RETURN, 0, 0, REFUSE_WITH | EPERM), (RETURN, 0, 0, ALLOW))
    code = b"".join(struct.pack("=HBBI", *each) for each in instructions)
    memory = ctypes.create_string_buffer(code)
    program = struct.pack("HL", len(instructions), ctypes.addressof(memory))
    libc = ctypes.CDLL(None, use_errno=True)
    for arguments in ((PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
                      (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program, 0, 0)):
        if libc.prctl(*arguments) != 0:
            raise OSError(ctypes.get_errno(), "prctl")


if __name__ == "__main__":
    refuse_io_uring()
    os.execv(sys.argv[1], sys.argv[1:])
