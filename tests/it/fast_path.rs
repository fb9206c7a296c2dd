//! The preloaded library: programs do the same with it and without, faster with it.

use crate::support::{Sandbox, entries, need, works_unanswered};

const LIBRARY: &str = "/dev/stockade/preload.so";

fn has_one() -> bool {
    cfg!(target_arch = "x86_64")
}

#[test]
fn is_there_where_names_are_guarded_and_can_be_switched_off() {
    if !has_one() {
        return;
    }
    let sandbox = Sandbox::new();
    let show = "echo ${LD_PRELOAD-none}; test -e /dev/stockade && echo there || echo not there";
    let (on, off) = (format!("{LIBRARY}\nthere"), "none\nnot there");
    sandbox.sh(show).ok().prints(&on);
    sandbox.run().options(["--fast-path", "off"]).sh(show).ok().prints(off);
    sandbox.run().policy("fast-path = false\n").sh(show).ok().prints(off);
    sandbox.run().policy("fast-path = false\n").options(["--fast-path", "on"]).sh(show).ok().prints(&on);
    sandbox.run().option("--allow-userns").sh(show).ok().prints(off);
    sandbox.run().policy("fast-path = 1\n").sh(show).refused();
    // Where nobody is ever asked there is nothing to spare.
    sandbox.run().options(["--read", "$PROJECT"]).sh(show).ok().prints(off);
}

#[test]
fn libraries_of_the_caller_come_first_and_stay() {
    if !has_one() || !need("cc") {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.file_beside(
        "own.c",
        "#include <stdlib.h>\n__attribute__((constructor)) static void own(void) { setenv(\"OWN\", \"loaded\", 1); }\n",
    );
    // In the project, so that the command can load it: a static stockade, other than a dynamic one, does not.
    sandbox.script("cc -shared -fPIC -o own.so ../own.c").ok();
    let own = sandbox.project.join("own.so");
    let run = sandbox.run().env("LD_PRELOAD", &own).env("ASAN_OPTIONS", "detect_leaks=0");
    let expected = format!("loaded {}:{LIBRARY} detect_leaks=0:verify_asan_link_order=0", own.display());
    run.sh("sh -c 'echo $OWN $LD_PRELOAD $ASAN_OPTIONS'").ok().prints(&expected);
}

#[test]
fn cannot_be_changed_inside() {
    if has_one() {
        let sandbox = Sandbox::new();
        let script =
            format!("chmod u+w {LIBRARY}; rm -f {LIBRARY}; echo x > {LIBRARY}; touch {LIBRARY} /dev/stockade/x");
        sandbox.sh(&format!("{script}; sha256sum < {LIBRARY}")).says("Read-only file system");
        let sum = format!("sha256sum < {LIBRARY}");
        assert_eq!(sandbox.sh(&format!("({script}) 2>/dev/null; {sum}")).out, sandbox.sh(&sum).ok().out);
    }
}

/// The supervisor is stopped, and answers nothing.
#[test]
fn nobody_is_asked_in_a_free_directory() {
    if !has_one() || !need("python3") {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.file("free/old", "x");
    let script = "import os, time
os.mkdir('free/ready')
while not os.path.exists('free/go'): time.sleep(0.01)
os.mkdir('free/d'); os.close(os.open('free/d/f', os.O_CREAT | os.O_WRONLY)); os.chmod('free/d/f', 0o600)
os.rename('free/d/f', 'free/g'); os.link('free/g', 'free/h'); os.symlink('g', 'free/s'); os.truncate('free/g', 5)
os.utime('free/g', (1, 2)); os.unlink('free/h'); os.rmdir('free/d'); os.access('free/g', os.W_OK); os.unlink('free/old')
os.mkdir('free/done')";
    works_unanswered(&sandbox, script, ["free/ready", "free/go", "free/done"]);
    let mut left: Vec<_> = entries(&sandbox.project.join("free"));
    left.sort();
    let names: Vec<_> = left.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
    assert_eq!(names, ["done", "g", "go", "ready", "s"]);
}

#[test]
fn denials_are_reported() {
    let sandbox = Sandbox::new();
    sandbox.sh("touch .mcp.json").fails().says("stockade: denied by policy: create ./.mcp.json (read-only, built-in");
    sandbox.sh("mkdir -p a b; touch a/x && mv a/x b/x && mv b/x y && ln y z && rm -r a b y").ok();
    assert!(sandbox.project.join("z").exists());
}

/// As libraries they insist on being first, and all of them on parts of the address space.
#[test]
fn sanitizers_do_not_break() {
    if !need("cc") {
        return;
    }
    let sandbox = Sandbox::new();
    let program = "#include <fcntl.h>\n#include <stdio.h>\n#include <unistd.h>\n#include <sys/stat.h>
int main(void) { mkdir(\"free\", 0755); int fd = open(\"free/x\", O_CREAT | O_WRONLY, 0644); close(fd); return rename(\"free/x\", \"free/y\"); }";
    sandbox.file_beside("program.c", program);
    for sanitizer in ["address", "thread", "undefined"] {
        sandbox.script(&format!("cc -w -fsanitize={sanitizer} -o {sanitizer} ../program.c")).ok();
        let done = sandbox.run().argv([format!("./{sanitizer}")]).ok();
        assert_eq!((done.out.as_str(), done.err.as_str()), ("", ""), "{sanitizer}");
    }
}
