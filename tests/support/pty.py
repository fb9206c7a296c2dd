"""Runs a command on a terminal of its own: pty.py STEPS COMMAND ARG...

STEPS is a JSON list of pairs: ["expect", TEXT], ["send", TEXT], ["size", "ROWS COLUMNS"]. After the last step the
terminal is read to its end. Prints what was seen and exits with the command's status; 99 when something did not come.
"""

import fcntl
import json
import os
import pty
import select
import signal
import struct
import sys
import termios
import time

PATIENCE = 40


class Terminal:
    def __init__(self, argv):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execvp(argv[0], argv)
        self.seen = b""
        self.mark = 0

    def read(self, deadline):
        """One read; False at the end of the terminal."""
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([self.fd], [], [], left)[0]:
            self.fail("nothing came")
        try:
            data = os.read(self.fd, 65536)
        except OSError:
            data = b""
        self.seen += data
        return bool(data)

    def expect(self, text):
        deadline = time.monotonic() + PATIENCE
        while (at := self.seen.find(text.encode(), self.mark)) < 0:
            if not self.read(deadline):
                self.fail(f"ended before {text!r}")
        self.mark = at + len(text.encode())

    def send(self, text):
        os.write(self.fd, text.encode())

    def size(self, text):
        rows, columns = map(int, text.split())
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def finish(self):
        deadline = time.monotonic() + PATIENCE
        while self.read(deadline):
            pass
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def show(self):
        sys.stdout.buffer.write(self.seen)
        sys.stdout.flush()

    def fail(self, why):
        self.show()
        print(why, file=sys.stderr)
        os.kill(self.pid, signal.SIGKILL)
        os._exit(99)


terminal = Terminal(sys.argv[2:])
for verb, text in json.loads(sys.argv[1]):
    getattr(terminal, verb)(text)
status = terminal.finish()
terminal.show()
sys.exit(status if status >= 0 else 128 - status)
