//! A command that stops must not stop the processes that its caller runs beside it, nor leave a run that nobody resumes.

use crate::support::{Sandbox, need};

/// Without job control nobody resumes what was stopped.
#[test]
fn stops_nobody_else() {
    let sandbox = Sandbox::new();
    let attack = "for s in STOP TSTP TTIN TTOU; do kill -$s $$ 2>/dev/null; done";
    // The shell, its sleep and stockade are in one process group.
    let script = format!(
        "sleep 5 & other=$!; $SK run --no-config -- sh -c '(sleep 0.5; kill -CONT $$; sleep 0.2; kill -CONT $$; sleep 0.2; \
         kill -CONT $$; sleep 0.2; kill -CONT $$) & {attack}; echo went on' >out & sleep 1; \
         for p in $other $!; do grep -h State: /proc/$p/status; done; wait $!; cat out; kill $other"
    );
    let outcome = sandbox.outside(&["setsid", "-w", "sh", "-c", &script]);
    assert!(!outcome.out.contains("stopped"), "{}", outcome.describe());
    outcome.ok().shows("went on");
}

/// The broker answers while the command is stopped: what it started goes on.
#[test]
fn children_of_a_stopped_command_go_on() {
    if need("python3") {
        let program = "import os, signal, time
me = os.getpid()
if os.fork() == 0:
    os.setsid()
    for n in range(200): open('f%d' % (n % 5), 'w').close(); os.unlink('f%d' % (n % 5))
    open('done', 'w').close(); os.kill(me, signal.SIGCONT); os._exit(0)
os.kill(me, signal.SIGSTOP)
while not os.path.exists('done'): time.sleep(0.01)";
        let sandbox = Sandbox::new();
        sandbox.run().python(program).ok();
        assert!(sandbox.project.join("done").exists());
    }
}
