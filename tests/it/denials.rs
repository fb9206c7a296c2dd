//! What the policy refuses is told when the command fails: also where the kernel alone refuses, and nothing that would have
//! failed anyway.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::Value;

use crate::support::{Outcome, PYTHON, Run, Sandbox, is_root, need, real_home};

/// A sandbox whose neighbours are to be seen inside: `/var/tmp` is private.
fn sandbox() -> Sandbox {
    Sandbox::below(real_home())
}

/// The lines of a report.
fn report(path: &Path) -> Vec<Value> {
    fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// What a script is denied, as `verb name`, with the names below the sandbox's directory.
fn denied(sandbox: &Sandbox, run: Run<'_>, script: &str) -> Vec<String> {
    let path = sandbox.beside("report");
    let _ = run.option("--report").option(&path).sh(script);
    let base = sandbox.beside("");
    let name = |line: &Value| line["path"].as_str().unwrap().replace(base.to_str().unwrap(), "");
    report(&path).iter().map(|line| format!("{} {}", line["verb"].as_str().unwrap(), name(line))).collect()
}

#[test]
fn writes_outside_of_every_writable_place_are_told() {
    let sandbox = sandbox();
    sandbox.file_beside("q/f", "");
    let script = "echo > ../q/new; echo > ../q/f; mkdir ../q/d; rm -f ../q/f; mv ../q/f ../q/g; chmod 600 ../q/f\n\
        ln ../q/f ../q/l; ln -s x ../q/s; echo > ../q/new";
    let expected =
        ["create q/new", "write q/f", "create q/d", "remove q/f", "rename q/f", "change q/f", "link q/f", "create q/s"];
    assert_eq!(denied(&sandbox, sandbox.run(), script), expected);
    // Static programs are asked about more often.
    assert_eq!(denied(&sandbox, sandbox.run().options(["--fast-path", "off"]), script), expected);
    assert_eq!(report(&sandbox.beside("report"))[0]["count"], 2);
    sandbox.sh("echo > ../q/new").fails().says("denied by policy: create ").says("/q/new (read-only, built-in)");
}

#[test]
fn what_would_have_failed_anyway_is_not_told() {
    let sandbox = sandbox();
    sandbox.file_beside("q/f", "");
    let closed = sandbox.file_beside("closed/f", "");
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    mode(&closed, 0o444);
    mode(closed.parent().unwrap(), 0o555);
    let script = "mkdir -p ../q; set -C; echo > ../q/f; echo > ../q/none/f; rm -f ../q/none; mv ../q/none ../q/other\n\
        [ -w ../q ]; [ -w ../q/f ]; echo > ../closed/f; echo > ../closed/new; rm -f ../closed/f; mv ../closed/f ../closed/g\n\
        : < ../q/f; : > /dev/null; : > /dev/full; echo > /proc/self/comm";
    assert_eq!(denied(&sandbox, sandbox.run(), script), [""; 0]);
    mode(closed.parent().unwrap(), 0o755);
    if !is_root() {
        let script = "echo >> /etc/passwd; touch /usr/x /etc/x; rm -f /etc/passwd; chmod 777 /usr; mkdir /usr/lib";
        assert_eq!(denied(&sandbox, sandbox.run(), script), [""; 0]);
    }
}

#[test]
fn a_run_that_succeeds_says_nothing() {
    let sandbox = sandbox();
    sandbox.file_beside("q/f", "");
    sandbox.sh("(echo > ../q/f; echo > .mcp.json) 2>/dev/null; exit 0").ok().says_nothing();
}

/// A second file system beside the project; `options` are the mount's.
fn beside_a_mount(sandbox: &Sandbox, options: &str, script: &str) -> Outcome {
    fs::create_dir_all(sandbox.beside("m")).unwrap();
    let namespace = if is_root() { "-m" } else { "-Urm" };
    let mount = format!("mount -t tmpfs {options} none ../m");
    sandbox.script(&format!("unshare {namespace} sh -c '{mount}; exec $SK run --no-config -- sh -c \"{script}\"'"))
}

#[test]
fn other_file_systems_are_told_of_unless_the_host_has_them_read_only() {
    if !need("userns") {
        return;
    }
    let sandbox = sandbox();
    let script = "mkdir ../m/d; echo > ../m/f";
    beside_a_mount(&sandbox, "-o rw", script)
        .fails()
        .says("denied by policy: create")
        .says("/m/d (read-only, built-in");
    let outcome = beside_a_mount(&sandbox, "-o ro", script).fails().says("Read-only file system");
    assert!(!outcome.err.contains("stockade:"), "{}", outcome.describe());
}

/// Runs a script with further options, by way of a shell, as a person would.
fn with_options(sandbox: &Sandbox, options: &str, script: &str) -> Outcome {
    let script = script.replace('\'', r"'\''");
    sandbox.script(&format!("exec $SK run --no-config {options} -- sh -c '{script}'"))
}

/// Following the advice of a run that failed is enough; gives the advice.
fn cured(options: &str, script: &str) -> String {
    let sandbox = sandbox();
    sandbox.file_beside("q/f", "");
    sandbox.file("dist/f", "");
    sandbox.file_beside("read.toml", "[files]\nread = [\"p/dist\"]\n");
    let report = sandbox.beside("report");
    let reported = format!("{options} --report {}", report.display());
    let outcome = with_options(&sandbox, &reported, script).fails().says("stockade: denied by policy: ");
    let line = &self::report(&report)[0];
    let cure = line["cure"].as_str().unwrap_or_else(|| panic!("{script}: {line}\n{}", outcome.describe()));
    let outcome = outcome.says(&format!("; {cure}"));
    let cure = cure.strip_prefix("allow with ").unwrap_or_else(|| panic!("{cure}\n{}", outcome.describe()));
    with_options(&sandbox, &format!("{options} {cure}"), script).ok();
    cure.replace(sandbox.beside("").to_str().unwrap(), "")
}

#[test]
fn cures_are_short_and_work() {
    let below = |script| cured("--policy ../read.toml", script);
    assert_eq!(below("echo > dist/new"), "--write ./dist");
    assert_eq!(below("rm dist/f"), "--write ./dist");
    assert_eq!(below("echo > dist/f"), "--write ./dist/f");
    assert_eq!(cured("", "echo > .mcp.json"), "--write ./.mcp.json");
    for script in
        ["echo > ../q/new", "mkdir ../q/d", "rm ../q/f", "mv ../q/f ../q/g", "ln ../q/f ../q/l", "ln -s x ../q/l"]
    {
        assert_eq!(cured("", script), "--write q", "{script}");
    }
    for (script, name) in
        [("echo > ../q/f", "q/f"), ("chmod 600 ../q/f", "q/f"), ("echo > ../n", "n"), ("mkdir ../n", "n")]
    {
        assert_eq!(cured("", script), format!("--write {name}"), "{script}");
    }
    assert_eq!(cured("", "echo > '../a b*'"), r"--write 'a b\*'");
}

#[test]
fn a_rule_in_the_way_is_named() {
    let sandbox = sandbox();
    sandbox.file("dist/f", "");
    sandbox.run().read("dist").sh("echo > dist/x").fails().says("--read dist); leave out --read dist\n");
}

const CONNECT: &str = "import socket, sys\nfor host, port in [a.split() for a in sys.argv[1:]]:\n \
    s = socket.socket(socket.AF_INET6 if ':' in host else socket.AF_INET)\n s.settimeout(5)\n s.connect_ex((host, int(port)))\n\
    sys.exit(1)";

#[test]
fn the_network_that_is_off_is_told() {
    if !need("python3") {
        return;
    }
    let sandbox = Sandbox::new();
    let connect = |run: Run<'_>, to: &[&str]| run.argv([&[PYTHON, "-c", CONNECT], to].concat());
    let told = "stockade: network is off (built-in): a connection to 192.0.2.1:80 and 1 more was tried; allow with --network host";
    connect(sandbox.run(), &["192.0.2.1 80", "127.0.0.1 9", "192.0.2.1 80", "2001:db8::1 443"]).fails().says(told);
    let path = sandbox.beside("report");
    let _ = connect(sandbox.run().option("--report").option(&path), &["192.0.2.1 80", "192.0.2.1 80"]);
    let line = &report(&path)[0];
    assert_eq!((line["address"].as_str(), line["count"].as_u64()), (Some("192.0.2.1:80"), Some(2)));
    assert_eq!(line["text"], "connect to 192.0.2.1:80: network is off (built-in)");
    let by_file = sandbox.run().policy("[network]\nmode = \"none\"\n");
    connect(by_file, &["192.0.2.1 80"]).fails().says(".toml:2): ").says("; allow with --network host\n");
    let by_flag = sandbox.run().options(["--network", "none"]);
    connect(by_flag, &["192.0.2.1 80"]).fails().says("off (--network none): ").says("--network host instead");
    // Another command of the session may be there.
    let outcome = connect(sandbox.run(), &["127.0.0.1 9", "::1 9", "0.0.0.0 9"]).fails();
    assert!(!outcome.err.contains("network"), "{}", outcome.describe());
    let script = format!("{PYTHON} -c \"$0\" '192.0.2.1 80'; exit 0");
    sandbox.run().argv(["sh", "-c", &script, CONNECT]).ok().says_nothing();
}

#[test]
fn a_look_up_needs_the_network() {
    if !need("getent") {
        return;
    }
    Sandbox::new().sh("getent hosts nowhere.example").fails().says("network is off (built-in)").says(":53 was tried");
}

#[test]
fn a_job_keeps_denials_with_their_cures() {
    if !need("python3") {
        return;
    }
    let sandbox = Sandbox::new();
    let script = format!("echo > .mcp.json; {PYTHON} -c \"$0\" '192.0.2.1 80'");
    let id = sandbox.run().session("s1").option("--detach").argv(["sh", "-c", &script, CONNECT]).ok().out;
    let ask = |what| sandbox.stockade(&["job", what, id.trim()]).plain();
    ask("wait").fails();
    let outcome = ask("show").ok().shows("; allow with --write ./.mcp.json\n");
    let _ = outcome.shows("denied: connect to 192.0.2.1:80: network is off (built-in); allow with --network host\n");
}
