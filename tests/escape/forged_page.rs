//! The filter does not ask about paths that are named from one address, where the fast path's library makes its calls.
//! Everybody can make them from there.

use std::fs;

use crate::support::{Sandbox, entries, need};

/// Calls from that address whatever it is given: a number and arguments, as numbers or texts. Prints what came of it.
const PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
static long passed(long n, long *a) {
    register long r10 __asm__("r10") = a[3], r8 __asm__("r8") = a[4], r9 __asm__("r9") = a[5];
    long r;
    __asm__ volatile("call *%%rbx" : "=a"(r) : "a"(n), "b"(0x70000000L), "D"(a[0]), "S"(a[1]), "d"(a[2]), "r"(r10), "r"(r8), "r"(r9)
        : "rcx", "r11", "memory");
    return r;
}
int main(int argc, char **argv) {
    void *page = mmap((void *)0x70000000L, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    memcpy(page, "\x0f\x05\xc3", 3);
    static char buffer[256];
    for (int i = 1; i < argc; i++) {
        long a[6] = {0}; int k = 0;
        char *call = strdup(argv[i]), *word = strtok(call, " ");
        long n = atol(word);
        while ((word = strtok(NULL, " ")) && k < 6)
            a[k++] = *word == '@' ? (long)(word + 1) : *word == '&' ? (long)buffer : strtol(word, NULL, 0);
        long r = passed(n, a);
        printf("%s: %s\n", argv[i], r < 0 ? strerrorname_np(-r) : "done");
    }
    return 0;
}
"#;

/// Openings to write and to create, and every other change of a path, all of them on names that cannot be written.
const PROTECTED: &[&str] = &[
    "2 @.mcp.json 0101 0644",
    "257 -100 @.envrc 0102 0644",
    "257 -100 @.envrc 01000 0",
    "85 @.gitconfig 0644",
    "83 @.vscode 0755",
    "258 -100 @.git/hooks/x 0755",
    "82 @free/mine @.mcp.json",
    "264 -100 @free/mine -100 @.envrc",
    "316 -100 @free/mine -100 @.envrc 2",
    "86 @free/mine @.bashrc",
    "265 -100 @.envrc -100 @free/stolen 0",
    "88 @/tmp/x @.mcp.json",
    "87 @.envrc",
    "263 -100 @.git/config 0",
    "84 @.git/hooks",
    "76 @.envrc 0",
    "90 @.envrc 0777",
    "268 -100 @.envrc 0777",
    "452 -100 @.envrc 0777 0x100",
    "92 @.envrc 1 1",
    "132 @.envrc 0",
    "280 -100 @.envrc 0 0",
    "188 @.envrc @user.x @y 1 0",
    "133 @.mcp.json 0010644 0",
];

/// What is refused without asking.
const REFUSED: &[(&str, &str)] = &[
    ("257 -100 @free/suid 0101 04755", "EPERM"),
    ("90 @free/mine 04755", "EPERM"),
    ("268 -100 @free/mine 04755", "EPERM"),
    ("91 0 04755", "EPERM"),
    ("133 @free/node 0104755 0", "EPERM"),
    ("437 -100 @free/how & 24", "ENOSYS"),
    ("425 4 &", "ENOSYS"),
    ("250 0 0 0", "ENOSYS"),
    ("16 0 0x5412 &", "EPERM"),
    ("444 0 0 1", "EOPNOTSUPP"),
];

const FORGE: &str = "free/forge";

fn prepared() -> Option<Sandbox> {
    if !(cfg!(target_arch = "x86_64") && need("cc")) {
        return None;
    }
    let sandbox = Sandbox::new();
    sandbox.file_beside("forge.c", PROGRAM);
    for name in [".envrc", "free/mine"] {
        sandbox.file(name, "as it was");
    }
    sandbox.script("cc -w -o free/forge ../forge.c && git init -q .").ok();
    Some(sandbox)
}

#[test]
fn opens_no_protected_name() {
    let Some(sandbox) = prepared() else { return };
    let before = sandbox.script("find . .git -exec stat -c '%n %a %u %Y %h %s' {} + | sort").ok().out;
    let argv: Vec<_> = std::iter::once(FORGE).chain(PROTECTED.iter().copied()).collect();
    let tried = sandbox.run().argv(&argv).ok().out;
    for (call, line) in PROTECTED.iter().zip(tried.lines()) {
        let refused = ["EROFS", "EXDEV", "EPERM"].iter().any(|errno| line.ends_with(&format!(": {errno}")));
        // fchmodat2 came with Linux 6.6.
        assert!(refused || (call.starts_with("452 ") && line.ends_with(": ENOSYS")), "{line}");
        assert!(line.starts_with(call), "{line}");
    }
    assert_eq!(tried.lines().count(), PROTECTED.len());
    assert_eq!(sandbox.script("find . .git -exec stat -c '%n %a %u %Y %h %s' {} + | sort").ok().out, before);
    assert_eq!(fs::read_to_string(sandbox.project.join(".envrc")).unwrap(), "as it was");
}

#[test]
fn is_refused_what_is_refused_without_asking() {
    let Some(sandbox) = prepared() else { return };
    let calls = REFUSED.iter().map(|(call, _)| *call);
    let argv: Vec<_> = std::iter::once(FORGE).chain(calls).collect();
    let expected: Vec<_> = REFUSED.iter().map(|(call, errno)| format!("{call}: {errno}")).collect();
    sandbox.run().argv(&argv).ok().prints(&expected.join("\n"));
    assert_eq!(entries(&sandbox.project.join("free")).len(), 2);
}

/// The address is one at which the filter does not ask: without that, this test would show nothing.
#[test]
fn is_not_asked_about() {
    let Some(sandbox) = prepared() else { return };
    // The supervisor would make it.
    sandbox.run().argv([FORGE, "83 @dir 0755"]).ok().prints("83 @dir 0755: EROFS");
    let slow = sandbox.run().options(["--fast-path", "off"]).argv([FORGE, "83 @dir 0755"]);
    slow.ok().prints("83 @dir 0755: done");
}
