//! How much a run may use.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::de::{self, Deserialize, Deserializer, Visitor};

use super::Setting;
use super::error::Problem;
use super::file::parse_size;

/// What can be limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Limit {
    /// Processes and threads at one time.
    Pids,
    /// Bytes of memory of all processes together.
    Memory,
    /// Processor time of all processes together.
    CpuTime,
    /// Open files of each process.
    OpenFiles,
    /// Bytes of each file that is written.
    FileSize,
    /// Time from the start.
    WallTime,
    /// Bytes in the private directories.
    TmpBytes,
}

/// What a limit is counted in.
enum Unit {
    Number,
    Bytes,
    Time,
}

impl Limit {
    pub const ALL: [Self; 7] =
        [Self::Pids, Self::Memory, Self::CpuTime, Self::OpenFiles, Self::FileSize, Self::WallTime, Self::TmpBytes];

    /// As it is written.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pids => "pids",
            Self::Memory => "memory",
            Self::CpuTime => "cpu-time",
            Self::OpenFiles => "open-files",
            Self::FileSize => "file-size",
            Self::WallTime => "wall-time",
            Self::TmpBytes => "tmp-bytes",
        }
    }

    fn unit(self) -> Unit {
        match self {
            Self::Pids | Self::OpenFiles => Unit::Number,
            Self::Memory | Self::FileSize | Self::TmpBytes => Unit::Bytes,
            Self::CpuTime | Self::WallTime => Unit::Time,
        }
    }

    fn parse(self, text: &str) -> Result<u64, Problem> {
        let (value, expected) = match self.unit() {
            Unit::Number => (text.parse().ok().filter(|number| *number > 0), "a number above 0"),
            Unit::Bytes => (parse_size(text), "a size such as 512M or 1G"),
            Unit::Time => (parse_time(text), "a time such as 30s, 10m or 1h"),
        };
        value.ok_or_else(|| Problem::LimitValue { name: self.name(), text: text.to_owned(), expected })
    }

    /// A value in words.
    #[must_use]
    pub fn show(self, value: u64) -> String {
        match self.unit() {
            Unit::Number => value.to_string(),
            Unit::Bytes => format!("{value} bytes"),
            Unit::Time => humantime::format_duration(Duration::from_millis(value)).to_string(),
        }
    }
}

/// In milliseconds.
fn parse_time(text: &str) -> Option<u64> {
    let time = humantime::parse_duration(text).ok()?;
    u64::try_from(time.as_millis()).ok().filter(|time| *time > 0)
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The limits that were set: numbers, bytes, or milliseconds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Limits(BTreeMap<Limit, Setting<u64>>);

impl Limits {
    /// The value of a limit.
    #[must_use]
    pub fn get(&self, limit: Limit) -> Option<u64> {
        self.0.get(&limit).map(|setting| setting.value)
    }

    /// A limit of time.
    #[must_use]
    pub fn time(&self, limit: Limit) -> Option<Duration> {
        self.get(limit).map(Duration::from_millis)
    }

    /// Every limit that was set.
    pub fn iter(&self) -> impl Iterator<Item = (Limit, &Setting<u64>)> {
        self.0.iter().map(|(limit, setting)| (*limit, setting))
    }

    /// Set a limit by its name; a later layer wins.
    pub(super) fn set(&mut self, name: &str, text: &str, origin: super::Origin) -> Result<(), Problem> {
        let known = Limit::ALL.into_iter().find(|limit| limit.name() == name);
        let limit = known.ok_or_else(|| Problem::NoLimit(name.to_owned()))?;
        self.0.insert(limit, Setting { value: limit.parse(text)?, origin });
        Ok(())
    }
}

/// A value in a file: a number or a text.
#[derive(Debug)]
pub(super) struct Value(pub(super) String);

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl Visitor<'_> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number or a text such as \"512M\" or \"10m\"")
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Value, E> {
        Ok(Value(number.to_string()))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Value, E> {
        Ok(Value(text.to_owned()))
    }
}
