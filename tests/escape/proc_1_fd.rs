//! `/proc/1/fd` would hold descriptors of the host. Root may list the numbers; where they lead stays closed.

use crate::support::{PYTHON, Sandbox, need, nested};

const ATTACK: &str = "import os
for n in range(256):
    for flags in (os.O_RDONLY, os.O_WRONLY, os.O_PATH):
        try: os.open(f'/proc/1/fd/{n}', flags); print('opened', n)
        except OSError: pass
    for place in ('fd', 'task/1/fd', 'fdinfo'):
        try: print(os.readlink(f'/proc/1/{place}/{n}'))
        except OSError: pass
try: print(os.listdir('/proc/1/map_files'))
except OSError: pass";

/// The same for a process that does nothing against it.
const CONTROL: &str = "import os; print(os.listdir(f'/proc/{os.getppid()}/fd'))";

#[test]
fn cannot_be_opened_or_read() {
    if need("python3") {
        let sandbox = Sandbox::new();
        sandbox.script(&format!("{PYTHON} -c \"{CONTROL}\"; true")).shows("0");
        sandbox.run().python(ATTACK).ok().prints("");
        sandbox.run().option("--allow-userns").argv(nested(&[PYTHON, "-c", ATTACK])).ok().prints("");
    }
}
