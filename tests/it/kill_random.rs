//! Whatever dies when: nothing lives on, and the next run finds no rest.

use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use rustix::process::Signal;

use crate::support::{Sandbox, alive, eventually, size, unique};

#[test]
fn sigkill_of_the_supervisor_at_random_moments() {
    let sandbox = Sandbox::new();
    let mut random = std::process::id();
    for _ in 0..size(25, 200) {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let seconds = format!("6{}", unique());
        let script = format!("sleep {seconds} & setsid sleep {seconds} & echo x > /tmp/x; sleep {seconds}");
        let mut run = sandbox.run().spawn(["sh", "-c", &script]);
        thread::sleep(Duration::from_micros(u64::from(random >> 17)));
        run.signal(Signal::KILL);
        run.wait().status(1009);
        eventually("no process lives", || (alive(&sandbox.marker).is_empty()).then_some(()));
        eventually("no command lives", || (alive(&seconds).is_empty()).then_some(()));
    }
    sandbox.run().argv(["true"]).ok();
    assert_eq!(sandbox.left_behind(), Vec::<PathBuf>::new());
}

#[test]
fn a_killed_run_leaves_its_session_in_use_by_nobody() {
    let sandbox = Sandbox::new();
    let mut run = sandbox.run().session("s").spawn(["sh", "-c", "echo x > /tmp/x; touch started; sleep 1000"]);
    eventually("the start", || sandbox.project.join("started").exists().then_some(()));
    run.signal(Signal::KILL);
    run.wait().status(1009);
    eventually("no process lives", || (alive(&sandbox.marker).is_empty()).then_some(()));
    sandbox.run().session("s").argv(["cat", "/tmp/x"]).ok().prints("x");
    sandbox.stockade(&["session", "end", "s"]).plain().ok();
}
