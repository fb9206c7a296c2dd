//! Ways round what is denied in bubblewrap's place, where directories are mounted writable in what is guarded.

mod free_directories;
mod host_moves;
mod inner_remount;
mod killed;

use std::path::Path;

use crate::support::{Run, Sandbox};

/// A project as clients guard it: `.vscode` is absent, `.git/hooks` and `a/guarded` are there, `src` and `a/free` are free.
fn project() -> Sandbox {
    let sandbox = Sandbox::new();
    for name in [".git/hooks/hook", ".git/config", "a/guarded/file", "a/free/file", "src/file", "lib/file"] {
        sandbox.file(name, "good");
    }
    sandbox
}

/// A call in the place of bubblewrap.
fn sandboxed(sandbox: &Sandbox) -> Run<'_> {
    let p = sandbox.project.to_str().unwrap();
    let path = |name: &str| format!("{p}/{name}");
    let [vscode, hooks, guarded] = [".vscode", ".git/hooks", "a/guarded"].map(path);
    let run = sandbox.stockade(&["bwrap", "--ro-bind", "/", "/", "--bind", p, p, "--ro-bind", "/dev/null", &vscode]);
    let run = run.options(["--ro-bind", &hooks, &hooks, "--ro-bind", &guarded, &guarded, "--dev", "/dev"]);
    run.options(["--proc", "/proc", "--unshare-pid", "--unshare-user", "--cap-drop", "ALL"])
}

/// Nothing that is denied was written.
fn innocent(sandbox: &Sandbox) {
    for name in [".git/hooks/hook", "a/guarded/file"] {
        // The host may have moved it.
        let text = std::fs::read_to_string(sandbox.project.join(name)).unwrap_or("good".into());
        assert_eq!(text, "good", "{name}");
    }
    let hooks = crate::support::entries(&sandbox.project.join(".git/hooks"));
    assert_eq!(hooks.len(), 1, "{hooks:?}");
    let vscode = sandbox.project.join(".vscode");
    assert!(!evil(&vscode), "{}", vscode.display());
}

fn evil(dir: &Path) -> bool {
    dir.is_symlink()
        || (dir.is_dir() && crate::support::entries(dir).iter().any(|path| path.ends_with("evil") || evil(path)))
        || dir.is_file() && std::fs::read_to_string(dir).unwrap().contains("evil")
}
