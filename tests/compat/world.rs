//! A directory to play in, made anew for each of the two programs at the same place.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::support::{Outcome, Sandbox, original};

/// Where both programs are called.
pub(crate) struct World {
    pub(crate) sandbox: Sandbox,
    ours: PathBuf,
}

impl World {
    pub(crate) fn new() -> Self {
        let sandbox = Sandbox::new();
        let ours = sandbox.beside("bwrap");
        symlink(sandbox.binary(), &ours).unwrap();
        Self { sandbox, ours }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.sandbox.project
    }

    fn reset(&self) {
        let dir = self.path();
        for entry in crate::support::entries(dir) {
            let removed = if entry.is_dir() && !entry.is_symlink() {
                fs::remove_dir_all(&entry)
            } else {
                fs::remove_file(&entry)
            };
            removed.unwrap();
        }
        fs::create_dir_all(dir.join("d/sub")).unwrap();
        fs::create_dir(dir.join("e")).unwrap();
        fs::write(dir.join("d/f"), "one\n").unwrap();
        fs::write(dir.join("g"), "two\n").unwrap();
        symlink("d", dir.join("l")).unwrap();
    }

    fn call(&self, program: &Path, script: &str) -> Outcome {
        self.reset();
        self.again(program, script)
    }

    fn again(&self, program: &Path, script: &str) -> Outcome {
        let script = format!("B={}; W=$PWD; R='--ro-bind / /'; {script}", program.display());
        self.sandbox.outside(&["sh", "-c", &script])
    }

    /// With ours.
    pub(crate) fn ours(&self, script: &str) -> Outcome {
        self.call(&self.ours, script)
    }

    /// With ours, and with what the test has put there.
    pub(crate) fn ours_as_it_is(&self, script: &str) -> Outcome {
        self.again(&self.ours, script)
    }

    /// With the original.
    pub(crate) fn theirs(&self, script: &str) -> Outcome {
        self.call(&original().unwrap(), script)
    }

    /// Names on the host, in order.
    pub(crate) fn names(&self) -> Vec<PathBuf> {
        let mut names = Vec::new();
        collect(self.path(), &mut names);
        names.sort();
        names
    }
}

fn collect(dir: &Path, names: &mut Vec<PathBuf>) {
    for entry in crate::support::entries(dir) {
        if entry.is_dir() && !entry.is_symlink() {
            collect(&entry, names);
        }
        names.push(entry);
    }
}
