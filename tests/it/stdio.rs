//! Standard input, output and error are host descriptors; what a shell expects of them still holds.

use std::fs;

use crate::support::{Sandbox, real_home};

const RUN: &str = "$SK run --no-config --";

#[track_caller]
fn script(sandbox: &Sandbox, text: &str) -> crate::support::Outcome {
    sandbox.script(&text.replace("RUN", RUN))
}

#[test]
fn a_file_is_read() {
    let sandbox = Sandbox::new();
    let beside = sandbox.file_beside("in", "one\ntwo\n");
    sandbox.file("in", "one\ntwo\n");
    script(&sandbox, "RUN cat < in").ok().prints("one\ntwo");
    script(&sandbox, &format!("RUN cat < {}", beside.display())).ok().prints("one\ntwo");
}

#[test]
fn reading_goes_on_where_the_command_stopped() {
    let sandbox = Sandbox::below(real_home());
    let beside = sandbox.file_beside("in", "1234rest\n");
    sandbox.file("in", "1234rest\n");
    for input in ["in", &beside.display().to_string()] {
        script(&sandbox, &format!("{{ RUN head -c 4; echo; cat; }} < {input}")).ok().prints("1234\nrest");
        script(&sandbox, &format!("{{ head -c 4; echo; RUN cat; }} < {input}")).ok().prints("1234\nrest");
    }
}

/// What cannot be seen inside goes through a pipe: it begins at the right place, but what the pipe held at the end is lost.
#[test]
fn a_file_that_is_not_seen_inside_is_read_from_where_the_caller_was() {
    let sandbox = Sandbox::new();
    let beside = sandbox.file_beside("in", "1234rest\n");
    script(&sandbox, &format!("{{ head -c 4; echo; RUN cat; }} < {}", beside.display())).ok().prints("1234\nrest");
}

#[test]
fn a_deleted_file_is_read() {
    let sandbox = Sandbox::new();
    sandbox.file("in", "gone\n");
    script(&sandbox, "{ rm in; RUN cat; } < in").ok().prints("gone");
}

#[test]
fn a_file_is_written() {
    let sandbox = Sandbox::new();
    let out = sandbox.beside("out");
    let at = out.display();
    script(&sandbox, &format!("RUN echo new > {at}")).ok();
    assert_eq!(fs::read_to_string(&out).unwrap(), "new\n");
    script(&sandbox, &format!("{{ RUN echo one; echo two; RUN echo three; }} > {at}")).ok();
    assert_eq!(fs::read_to_string(&out).unwrap(), "one\ntwo\nthree\n");
    script(&sandbox, &format!("RUN echo four >> {at}; echo five >> {at}")).ok();
    assert_eq!(fs::read_to_string(&out).unwrap(), "one\ntwo\nthree\nfour\nfive\n");
}

#[test]
fn long_output_is_complete_when_the_run_ends() {
    let sandbox = Sandbox::new();
    script(&sandbox, "RUN sh -c 'head -c 3000000 /dev/zero; echo end >&2' > out 2> err").ok();
    assert_eq!(fs::metadata(sandbox.project.join("out")).unwrap().len(), 3_000_000);
    assert_eq!(fs::read_to_string(sandbox.project.join("err")).unwrap(), "end\n");
}

#[test]
fn output_and_errors_in_one_file_keep_their_order() {
    let sandbox = Sandbox::new();
    script(&sandbox, "RUN sh -c 'for i in 1 2 3 4 5 6; do echo $i; echo $i >&2; done' > both 2>&1").ok();
    let order = fs::read_to_string(sandbox.project.join("both")).unwrap();
    assert_eq!(order, "1\n1\n2\n2\n3\n3\n4\n4\n5\n5\n6\n6\n");
}

#[test]
fn a_directory_is_refused() {
    let sandbox = Sandbox::new();
    script(&sandbox, "RUN touch ran < .").refused().says("directory");
    assert!(!sandbox.project.join("ran").exists());
}

#[test]
fn a_pipe_is_read_to_its_end() {
    let sandbox = Sandbox::new();
    sandbox.run().input("a\nb\n").argv(["wc", "-l"]).ok().prints("2");
    sandbox.run().input(vec![b'x'; 1_000_000]).argv(["wc", "-c"]).ok().prints("1000000");
    script(&sandbox, "RUN cat < /dev/null").ok().prints("");
}

#[test]
fn a_reader_that_goes_away_ends_the_command() {
    script(&Sandbox::new(), "RUN yes | head -n 1; RUN sh -c 'yes; echo $? >&2' | true").prints("y");
}

#[test]
fn a_full_disk_is_an_error_of_the_command() {
    script(&Sandbox::new(), "RUN sh -c 'echo x || exit 7' > /dev/full").status(7);
}

#[test]
fn closed_descriptors_stay_closed_or_lead_nowhere() {
    let sandbox = Sandbox::new();
    for fd in [0, 1, 2] {
        let look = format!("RUN sh -c 'readlink /proc/self/fd/{fd} > seen; true' {fd}>&-");
        script(&sandbox, &look).ok();
        let seen = fs::read_to_string(sandbox.project.join("seen")).unwrap();
        let harmless = fd == 1 || seen.is_empty() || seen == "/dev/null\n";
        assert!(harmless, "descriptor {fd} leads to {seen}");
    }
}

#[test]
fn standard_streams_can_be_opened_by_name() {
    let sandbox = Sandbox::new();
    sandbox
        .run()
        .input("in\n")
        .sh("cat /dev/stdin; echo out > /dev/stdout; echo err > /dev/stderr")
        .ok()
        .prints("in\nout");
}
