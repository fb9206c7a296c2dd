//! The caller's terminal: job control, Ctrl-C, Ctrl-Z, full-screen programs, window size.

use crate::support::{Sandbox, need, python};

const BASH: [&str; 4] = ["bash", "--norc", "--noprofile", "-i"];

#[test]
fn is_named_and_controls_jobs() {
    if !need("python3") {
        return;
    }
    let sandbox = Sandbox::new();
    let words = sandbox.run().words(["bash", "--norc", "-ic", "tty && sleep .1 & jobs; wait; echo end"]);
    let outcome = sandbox.terminal(&[("expect", "end")], &words).ok().shows("/dev/");
    outcome.lacks("no job control").lacks("cannot set terminal").lacks("not a tty");
}

#[test]
fn an_interactive_shell_interrupts_and_suspends() {
    if !need("python3") {
        return;
    }
    let sandbox = Sandbox::new();
    let steps = [
        ("send", "PS1='rea''dy> '\n"),
        ("expect", "ready> "),
        ("send", "sh -c 'echo r$((1+1)); exec sleep 1000'\n"),
        ("expect", "r2"),
        ("send", "\u{3}"),
        ("expect", "ready> "),
        ("send", "echo status=$?\n"),
        ("expect", "status=130"),
        ("send", "sh -c 'echo r$((2+2)); exec sleep 1000'\n"),
        ("expect", "r4"),
        ("send", "\u{1a}"),
        ("expect", "Stopped"),
        ("send", "kill %1; wait; echo e$((5+5))\n"),
        ("expect", "e10"),
        ("send", "exit 4\n"),
    ];
    sandbox.terminal(&steps, &sandbox.run().words(BASH)).status(4).lacks("no job control");
}

#[test]
fn control_c_ends_a_plain_command() {
    if !need("python3") {
        return;
    }
    let sandbox = Sandbox::new();
    let words = sandbox.run().words(["sh", "-c", "echo ready; exec sleep 1000"]);
    sandbox.terminal(&[("expect", "ready"), ("send", "\u{3}")], &words).status(130);
}

#[test]
fn a_shell_outside_stops_and_continues_a_run() {
    if !need("python3") {
        return;
    }
    let sandbox = Sandbox::new();
    let steps = [
        ("send", "PS1='rea''dy> '\n"),
        ("expect", "ready> "),
        ("send", "$SK run --no-config -- sh -c 'echo r$((1+1)); read line; echo got $line'\n"),
        ("expect", "r2"),
        ("send", "\u{1a}"),
        ("expect", "Stopped"),
        ("expect", "ready> "),
        ("send", "fg\n"),
        ("expect", "run --no-config"),
        ("send", "input\n"),
        ("expect", "got input"),
        ("expect", "ready> "),
        ("send", "exit 0\n"),
    ];
    sandbox.terminal(&steps, &BASH).ok();
}

#[test]
fn the_window_size_follows() {
    if !need("python3") {
        return;
    }
    let sandbox = Sandbox::new();
    let program = "import os, signal
def show(*_): os.write(1, b'%d %d;' % os.get_terminal_size()[::-1])
signal.signal(signal.SIGWINCH, show)
print('ready', flush=True)
while True: signal.pause()";
    let steps = [
        ("expect", "ready"),
        ("size", "33 77"),
        ("expect", "33 77;"),
        ("size", "44 88"),
        ("expect", "44 88;"),
        ("send", "\u{3}"),
    ];
    sandbox.terminal(&steps, &sandbox.run().words(python(program))).status(130);
}

#[test]
fn full_screen_programs_work() {
    if !need("python3") {
        return;
    }
    let sandbox = Sandbox::new();
    let lines = (1..500).map(|n| format!("line {n}")).collect::<Vec<_>>().join("\n");
    sandbox.file("text", &lines);
    if need("less") {
        let steps = [("expect", "line 3"), ("send", "G"), ("expect", "line 499"), ("send", "q")];
        sandbox.terminal(&steps, &sandbox.run().words(["less", "text"])).ok();
    }
    if need("vim") {
        let steps = [("expect", "line 3"), ("send", "ggInew \u{1b}:wq\r")];
        sandbox.terminal(&steps, &sandbox.run().words(["vim", "-u", "NONE", "-i", "NONE", "text"])).ok();
        let text = std::fs::read_to_string(sandbox.project.join("text")).unwrap();
        assert!(text.starts_with("new line 1\n"));
    }
}

#[test]
fn is_left_as_it_was() {
    if !need("python3") {
        return;
    }
    let sandbox = Sandbox::new();
    let script = "a=$(stty -g); $SK run --no-config -- sh -c 'true'; [ \"$a\" = \"$(stty -g)\" ] && echo sa''me
        read line; echo got $line";
    let steps = [("expect", "same"), ("send", "after\n"), ("expect", "got after")];
    sandbox.terminal(&steps, &["sh", "-c", script]).ok();
}
