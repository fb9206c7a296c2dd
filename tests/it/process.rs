//! Status, signals, descriptors, arguments; nothing a command started outlives it.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::Signal;

use crate::support::{PYTHON, Sandbox, alive, eventually, need, python, unique};

#[track_caller]
fn started(sandbox: &Sandbox) {
    eventually("the start", || sandbox.project.join("started").exists().then_some(()));
}

#[test]
fn the_status_is_the_commands() {
    let sandbox = Sandbox::new();
    for code in [0, 1, 2, 42, 125, 126, 127, 128, 255] {
        sandbox.sh(&format!("exit {code}")).status(code);
    }
    for (signal, code) in [("KILL", 137), ("TERM", 143), ("SEGV", 139), ("INT", 130)] {
        sandbox.sh(&format!("kill -{signal} $$")).status(code);
    }
}

#[test]
fn a_command_that_cannot_be_run() {
    let sandbox = Sandbox::new();
    sandbox.run().argv(["/nonexistent/command"]).status(127).says("error: ").says("/nonexistent/command");
    sandbox.run().argv(["no-such-command-anywhere"]).status(127).says("no-such-command-anywhere");
    let file = sandbox.file("plain", "text");
    sandbox.run().argv([file.as_os_str()]).status(126).says("Permission denied");
    sandbox.run().argv(["."]).status(126);
    let bad = sandbox.program(&sandbox.project.join("bad"), "#!/nonexistent/interpreter\n");
    let outcome = sandbox.run().argv([bad.as_os_str()]);
    assert!([126, 127].contains(&outcome.code), "{}", outcome.describe());
}

#[test]
fn the_command_is_found_by_the_path_it_will_have() {
    let sandbox = Sandbox::new();
    let tool = sandbox.program(&sandbox.project.join("bin/tool"), "#!/bin/sh\necho found\n");
    let path = format!("{}:/usr/bin:/bin", tool.parent().unwrap().display());
    sandbox.run().options(["--setenv", &format!("PATH={path}")]).argv(["tool"]).ok().prints("found");
}

/// Of the tests themselves: while another test's child is just being started, it holds every descriptor of this process.
#[test]
fn a_program_made_by_a_test_is_not_busy() {
    let over = AtomicBool::new(false);
    // It takes a child long to find that a program is in none of so many places.
    let path = "/nowhere:".repeat(1000);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    Command::new("no-such-program").env("PATH", &path).status().unwrap_err();
                }
            });
        }
        let busy = (0..40).filter(|_| {
            let (sandbox, binary) = Sandbox::new().own_binary();
            let script = sandbox.program(&sandbox.beside("script"), "#!/bin/sh\n");
            [Command::new(script).output(), Command::new(binary).arg("--version").output()].iter().any(Result::is_err)
        });
        let busy = busy.count();
        over.store(true, Ordering::Relaxed);
        assert_eq!(busy, 0);
    });
}

#[test]
fn without_a_command_the_shell_starts() {
    let sandbox = Sandbox::new();
    sandbox.run().input("echo $STOCKADE; exit 5\n").plain().status(5).prints("1");
}

#[test]
fn signals_reach_the_command() {
    for (name, signal) in [
        ("TERM", Signal::TERM),
        ("INT", Signal::INT),
        ("HUP", Signal::HUP),
        ("QUIT", Signal::QUIT),
        ("USR1", Signal::USR1),
        ("USR2", Signal::USR2),
        ("WINCH", Signal::WINCH),
    ] {
        let sandbox = Sandbox::new();
        let script = format!("trap 'echo got {name}; exit 7' {name}; touch started; while :; do sleep .02; done");
        let mut run = sandbox.run().spawn(["sh", "-c", &script]);
        started(&sandbox);
        run.signal(signal);
        run.wait().status(7).prints(&format!("got {name}"));
    }
}

#[test]
fn a_signal_that_kills_the_command_is_its_status() {
    let sandbox = Sandbox::new();
    let mut run = sandbox.run().spawn(["sh", "-c", "touch started; exec sleep 1000"]);
    started(&sandbox);
    run.signal(Signal::TERM);
    run.wait().status(143);
}

#[test]
fn an_ignored_signal_stays_ignored() {
    let sandbox = Sandbox::new();
    let outside = sandbox.script("trap '' HUP; exec sh -c 'kill -HUP $$; echo alive'").ok();
    assert_eq!(outside.out, "alive\n");
    sandbox.script("trap '' HUP; exec $SK run --no-config -- sh -c 'kill -HUP $$; echo alive'").ok().prints("alive");
}

#[test]
fn blocked_signals_and_handlers_are_not_inherited_from_us() {
    let sandbox = Sandbox::new();
    // 32 and 33 belong to the C library, which sets them as it likes.
    let masks = "sed -En 's/^(Sig(Blk|Ign)).*(........)/\\1 \\3/p' /proc/self/status | tr 89abcdef 01234567";
    let outside = sandbox.script(masks).ok().out;
    sandbox.sh(masks).ok().prints(outside.trim_end());
}

#[test]
fn arguments_arrive_byte_for_byte() {
    if !need("python3") {
        return;
    }
    let program = "import sys, os\nsys.stdout.buffer.write(b'|'.join(map(os.fsencode, sys.argv[1:])))";
    let odd = OsStr::from_bytes(b"\xff\xfe");
    let words = ["", "a b", "n\nl", "$HOME", "--", "-x", "*"].map(OsStr::new);
    let argv = python(program).map(OsStr::new).into_iter().chain(words).chain([odd]);
    Sandbox::new().run().argv(argv).ok().prints("|a b|n\nl|$HOME|--|-x|*|\u{fffd}\u{fffd}");
}

#[test]
fn a_long_argument_list_works() {
    let words = vec!["x".repeat(1000); 1500];
    let argv = ["sh", "-c", "echo $#", "sh"].map(String::from).into_iter().chain(words);
    Sandbox::new().run().argv(argv).ok().prints("1500");
}

#[test]
fn no_descriptor_is_inherited_unless_named() {
    let sandbox = Sandbox::new();
    sandbox.file("in", "through\n");
    let look = "exec 3<in 4<in 9<in; $SK run --no-config OPTION -- sh -c 'ls /proc/self/fd | wc -l; cat <&3'";
    sandbox.script(&look.replace("OPTION", "")).fails().prints("4");
    let named = sandbox.script(&look.replace("OPTION", "--preserve-fds 1")).ok();
    assert_eq!(named.out, "5\nthrough\n", "{}", named.describe());
}

#[test]
fn zombies_are_reaped() {
    if need("ps") {
        let script = "for i in 1 2 3 4 5 6; do (setsid sleep .05 &); done
            n=0; while ps -eo comm= | grep -q sleep && [ $n -lt 500 ]; do n=$((n+1)); read x < /proc/uptime; done
            ps -eo stat=,comm= | grep -c '^Z'";
        Sandbox::new().sh(script).status(1).prints("0");
    }
}

#[test]
fn what_the_command_started_ends_with_it() {
    let sandbox = Sandbox::new();
    let seconds = format!("7{}", unique());
    let script =
        format!("sleep {seconds} & setsid sleep {seconds} & (trap '' TERM HUP; sleep {seconds}) & touch started");
    sandbox.sh(&script).ok();
    eventually("the end of the background", || alive(&seconds).is_empty().then_some(()));
    assert!(alive(&sandbox.marker).is_empty());
}

#[test]
fn a_background_process_that_holds_the_output_does_not_hang_the_caller() {
    let sandbox = Sandbox::new();
    sandbox.sh("sleep 1000 & echo done").ok().prints("done");
}

#[test]
fn sigkill_of_the_supervisor_ends_everything() {
    let sandbox = Sandbox::new();
    let seconds = format!("8{}", unique());
    let script = format!("setsid sleep {seconds} & touch started; sleep {seconds}");
    let mut run = sandbox.run().spawn(["sh", "-c", &script]);
    started(&sandbox);
    run.signal(Signal::KILL);
    run.wait().status(1009);
    eventually("the end of all", || (alive(&seconds).is_empty() && alive(&sandbox.marker).is_empty()).then_some(()));
}

#[test]
fn a_deleted_working_directory_is_named() {
    let sandbox = Sandbox::new();
    let script = "mkdir gone; cd gone; rmdir ../gone; $SK run --no-config -- touch ../ran";
    sandbox.script(script).refused().says("gone");
    assert!(!sandbox.project.join("ran").exists());
}

#[test]
fn the_working_directory_is_kept() {
    let sandbox = Sandbox::new();
    fs::create_dir_all(sandbox.project.join("a/b")).unwrap();
    let below = sandbox.project.join("a/b").display().to_string();
    sandbox.run().options(["--chdir", &below]).argv(["pwd", "-P"]).ok().prints(&below);
    sandbox.run().options(["--chdir", "a/absent"]).argv(["pwd"]).refused().says("absent");
    let link = sandbox.beside("link");
    std::os::unix::fs::symlink(&sandbox.project, &link).unwrap();
    sandbox.run().cwd(link.join("a")).sh("echo ok > through; cat through").ok().prints("ok");
}

#[test]
fn the_thread_that_spawned_us_may_exit() {
    let sandbox = Sandbox::new();
    let thread = std::thread::scope(|scope| {
        scope
            .spawn(|| {
                sandbox.run().spawn(["sh", "-c", "touch started; until test -e go; do sleep .02; done; echo lives"])
            })
            .join()
    });
    let mut run = thread.unwrap();
    started(&sandbox);
    sandbox.file("go", "");
    run.wait().ok().prints("lives");
}

#[test]
fn die_with_parent() {
    if !need("python3") {
        return;
    }
    for (option, dies) in [("--die-with-parent", true), ("--trace", false)] {
        let sandbox = Sandbox::new();
        let seconds = format!("9{}", unique());
        let program = "import os, subprocess, sys, time\nsubprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL,\n\
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)\n\
            while not os.path.exists('started'): time.sleep(.02)";
        let script = format!("touch started; sleep {seconds}");
        let words = sandbox.run().option(option).words(["sh", "-c", &script]);
        let argv = [PYTHON, "-c", program].map(Into::into).into_iter().chain(words);
        sandbox.outside(&argv.collect::<Vec<std::ffi::OsString>>()).ok();
        if dies {
            eventually("the end of the orphan", || alive(&seconds).is_empty().then_some(()));
        } else {
            assert!(!alive(&seconds).is_empty(), "died with its parent, unasked");
            end_all(&sandbox);
        }
    }
}

/// Ends the supervisors of a sandbox; what they started follows.
fn end_all(sandbox: &Sandbox) {
    for line in alive(&sandbox.marker) {
        let pid = line.trim_start_matches("/proc/").split(':').next().and_then(|pid| pid.parse().ok());
        let _ = rustix::process::kill_process(rustix::process::Pid::from_raw(pid.unwrap()).unwrap(), Signal::KILL);
    }
    eventually("the end of all", || alive(&sandbox.marker).is_empty().then_some(()));
}

#[test]
fn the_command_has_no_privileges_to_gain() {
    let script = "grep -E '^(NoNewPrivs|CapEff|CapPrm|CapBnd|CapAmb)' /proc/self/status | tr -s '\\t' ' '";
    let none = "0000000000000000";
    let expected = format!("CapPrm: {none}\nCapEff: {none}\nCapBnd: {none}\nCapAmb: {none}\nNoNewPrivs: 1");
    Sandbox::new().sh(script).ok().prints(&expected);
}

#[test]
fn limits_of_the_caller_hold() {
    let sandbox = Sandbox::new();
    sandbox
        .script("ulimit -n 77; ulimit -c 0; $SK run --no-config -- sh -c 'ulimit -n; ulimit -c'")
        .ok()
        .prints("77\n0");
}

#[test]
fn umask_and_nice_value_are_kept() {
    let sandbox = Sandbox::new();
    sandbox.script("umask 027; nice -n 5 $SK run --no-config -- sh -c 'umask; nice'").ok().prints("0027\n5");
}

#[test]
fn no_more_processes_is_an_error_with_its_cause() {
    if need("user") && need("prlimit") {
        let sandbox = Sandbox::new();
        let script = "prlimit --nproc=1 $SK run --no-config -- touch ran";
        sandbox.script(script).refused().says_one_of(&["resource temporarily unavailable", "no space left"]);
        assert!(!sandbox.project.join("ran").exists());
        assert_eq!(sandbox.left_behind(), Vec::<std::path::PathBuf>::new());
    }
}
