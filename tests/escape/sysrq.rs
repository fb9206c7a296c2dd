//! `/proc/sysrq-trigger` restarts the host; `/proc/kcore` is its memory.

use crate::support::{Sandbox, need, python};

const OPEN: &str = "import os, sys; os.open(sys.argv[1], int(sys.argv[2])); print('open')";

#[test]
fn cannot_be_opened() {
    if !need("root") || !need("python3") || !need("/proc/sysrq-trigger") {
        return;
    }
    let sandbox = Sandbox::new();
    let argv =
        |path: &'static str, flags: &'static str| python(OPEN).into_iter().chain([path, flags]).collect::<Vec<_>>();
    sandbox.outside(&argv("/proc/sysrq-trigger", "1")).ok();
    sandbox.run().argv(argv("/proc/sysrq-trigger", "1")).fails().prints("");
    sandbox.run().sh("head -c 1 /proc/kcore /proc/keys | tail -n +2 | tr -d '=>< \\n' | grep -v proc").fails();
}
