//! What a mount hides is seen again when it can be unmounted.

use crate::support::{PYTHON, Sandbox, need, nested, real_home};

const ATTACK: &str = "import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
for line in reversed(open('/proc/self/mountinfo').read().splitlines()):
    for flags in (0, 2, 8):
        libc.umount2(line.split()[4].encode(), flags)
libc.umount2(sys.argv[1].encode(), 2)
try: print(open(sys.argv[1]).read())
except OSError: print('hidden')";

#[test]
fn is_refused() {
    if !need("python3") || !need("userns") {
        return;
    }
    let sandbox = Sandbox::below(real_home());
    let secret = sandbox.file_beside("secret", "secret");
    let argv = [PYTHON, "-c", ATTACK, secret.to_str().unwrap()];
    let cover = format!("mount --bind /dev/null {}; exec \"$@\"", secret.display());
    let outside = ["unshare", "-Urm", "sh", "-c", &cover, "sh"].into_iter().chain(argv).collect::<Vec<_>>();
    sandbox.outside(&outside).ok().prints("secret");
    let run = || sandbox.run().hide(&secret);
    run().argv(argv).lacks("secret");
    run().option("--allow-userns").argv(nested(&argv)).lacks("secret");
}
