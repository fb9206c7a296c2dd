//! What a call came to, and the questions asked about it.

use std::fmt::Write;

/// Status and output of a finished process.
pub(crate) struct Outcome {
    /// The exit status; 1000 + n when the process itself died of signal n.
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
    pub(crate) call: String,
}

impl Outcome {
    /// It succeeded.
    #[track_caller]
    pub(crate) fn ok(self) -> Self {
        self.status(0)
    }

    /// It ended with this status.
    #[track_caller]
    pub(crate) fn status(self, code: i32) -> Self {
        assert_eq!(self.code, code, "status\n{}", self.describe());
        self
    }

    /// Nothing was printed to standard error.
    #[track_caller]
    pub(crate) fn says_nothing(self) -> Self {
        assert_eq!(self.err, "", "{}", self.describe());
        self
    }

    /// It did not succeed.
    #[track_caller]
    pub(crate) fn fails(self) -> Self {
        assert_ne!(self.code, 0, "status\n{}", self.describe());
        self
    }

    /// Its output is exactly this, apart from a final newline.
    #[track_caller]
    pub(crate) fn prints(self, text: &str) -> Self {
        assert_eq!(self.out.trim_end_matches('\n'), text, "output\n{}", self.describe());
        self
    }

    /// Its output contains this.
    #[track_caller]
    pub(crate) fn shows(self, text: &str) -> Self {
        assert!(self.out.contains(text), "no {text:?} in the output\n{}", self.describe());
        self
    }

    /// Its output does not contain this.
    #[track_caller]
    pub(crate) fn lacks(self, text: &str) -> Self {
        assert!(!self.out.contains(text), "{text:?} in the output\n{}", self.describe());
        self
    }

    /// Its messages contain this, whatever the case.
    #[track_caller]
    pub(crate) fn says(self, text: &str) -> Self {
        let found = self.err.to_lowercase().contains(&text.to_lowercase());
        assert!(found, "no {text:?} in the messages\n{}", self.describe());
        self
    }

    /// Its messages contain one of these.
    #[track_caller]
    pub(crate) fn says_one_of(self, texts: &[&str]) -> Self {
        let err = self.err.to_lowercase();
        assert!(texts.iter().any(|text| err.contains(text)), "none of {texts:?} in the messages\n{}", self.describe());
        self
    }

    /// stockade itself refused: 125, and a message.
    #[track_caller]
    pub(crate) fn refused(self) -> Self {
        self.status(125).says("error: ")
    }

    /// The whole story, for a failed assertion.
    pub(crate) fn describe(&self) -> String {
        let mut text = format!("$ {}\nstatus {}\n", self.call, self.code);
        for (name, stream) in [("out", &self.out), ("err", &self.err)] {
            let shown: String = stream.chars().take(4000).collect();
            let _ = writeln!(text, "--- {name}\n{shown}");
        }
        text
    }
}
