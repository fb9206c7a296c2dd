//! A policy file: its TOML as typed values, and where in the text each of them stands.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::io::Read as _;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor, value::MapAccessDeserializer};
use toml::Spanned;

use super::error::Problem;
use super::limits;
use super::{Access, Backing, Error, GitMode, Network, Origin, Scope};

/// Lines longer than this are cut around the place that an error speaks of.
const EXCERPT: usize = 160;

/// A policy file that was read.
pub(super) struct PolicyFile {
    /// As named.
    path: PathBuf,
    /// What relative paths start from: the directory that holds the file, without links.
    pub(super) base: PathBuf,
    pub(super) stamp: Stamp,
    text: Text,
    pub(super) document: Document,
    /// Of the table `files`, whose lists are taken one by one.
    pub(super) redirect: Option<Spanned<bool>>,
}

/// What tells a file that was read from what is there later: `stat(2)` at that time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stamp {
    pub inode: u64,
    /// Bytes.
    pub size: u64,
    /// When the file was changed last, which nobody can set: seconds and nanoseconds.
    pub changed: (i64, i64),
}

/// What a policy file may hold.
#[derive(Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Document {
    files: Files,
    pub(super) network: NetworkTable,
    pub(super) environment: EnvironmentTable,
    pub(super) session: SessionTable,
    pub(super) limits: BTreeMap<Spanned<String>, Spanned<limits::Value>>,
    pub(super) overlay: OverlayTable,
    pub(super) git: Option<Spanned<GitMode>>,
    pub(super) strict: Option<Spanned<bool>>,
    #[serde(rename = "fast-path")]
    pub(super) fast_path: Option<Spanned<bool>>,
    pub(super) bwrap: Option<Spanned<BwrapTable>>,
}

#[derive(Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub(super) struct BwrapTable {
    pub(super) private_tmp: Option<Spanned<bool>>,
    pub(super) id_from: Vec<Spanned<String>>,
    pub(super) report: Option<Spanned<String>>,
}

#[derive(Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Files {
    hide: Vec<Spanned<Element>>,
    read: Vec<Spanned<Element>>,
    overlay: Vec<Spanned<Element>>,
    private: Vec<Spanned<Element>>,
    write: Vec<Spanned<Element>>,
    redirect: Option<Spanned<bool>>,
}

#[derive(Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct OverlayTable {
    #[serde(deserialize_with = "size")]
    pub(super) size: Option<u64>,
    pub(super) scope: Option<Scope>,
}

#[derive(Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct NetworkTable {
    pub(super) mode: Option<Spanned<Network>>,
}

#[derive(Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct EnvironmentTable {
    pub(super) set: BTreeMap<Spanned<String>, Spanned<String>>,
    pub(super) unset: Vec<Spanned<String>>,
    pub(super) keep: Option<Vec<Spanned<String>>>,
}

#[derive(Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub(super) struct SessionTable {
    pub(super) id_from: Vec<Spanned<String>>,
    #[serde(deserialize_with = "duration")]
    pub(super) idle: Option<Duration>,
}

/// One element of a list in `[files]`: a path, or a table with a path and more.
pub(super) struct Element {
    pub(super) path: String,
    pub(super) optional: bool,
    pub(super) size: Option<u64>,
    pub(super) backing: Option<Backing>,
    pub(super) scope: Option<Scope>,
    pub(super) reason: Option<String>,
}

/// The table form of an [`Element`].
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct ElementTable {
    path: String,
    #[serde(default)]
    optional: bool,
    #[serde(default, deserialize_with = "size")]
    size: Option<u64>,
    #[serde(default)]
    backing: Option<Backing>,
    #[serde(default)]
    scope: Option<Scope>,
    #[serde(default)]
    reason: Option<String>,
}

impl PolicyFile {
    /// Reads a file; relative names start at `cwd`.
    pub(super) fn read(path: &Path, cwd: &Path) -> Result<Self, Error> {
        let full = cwd.join(path);
        let (source, stamp) = read(&full).map_err(|source| Error::Read { path: path.to_owned(), source })?;
        let directory = full.parent().unwrap_or(cwd);
        let base = fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned());
        Ok(Self { stamp, ..Self::parse(path, base, source)? })
    }

    /// Reads a file that need not be there.
    pub(super) fn read_if_present(path: &Path, cwd: &Path) -> Result<Option<Self>, Error> {
        match Self::read(path, cwd) {
            Err(Error::Read { source, .. })
                if matches!(source.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
            {
                Ok(None)
            }
            other => other.map(Some),
        }
    }

    pub(super) fn parse(path: &Path, base: PathBuf, source: String) -> Result<Self, Error> {
        let parsed = toml::from_str::<Document>(&source);
        let (path, text) = (path.to_owned(), Text::new(source));
        let stamp = Stamp::default();
        let file = Self { path, base, stamp, text, document: Document::default(), redirect: None };
        match parsed {
            Ok(mut document) => {
                let redirect = document.files.redirect.take();
                Ok(Self { document, redirect, ..file })
            }
            Err(error) => {
                let offset = error.span().map_or(0, |span: Range<usize>| span.start);
                Err(file.fault(offset, Problem::Syntax(error.message().replace('\n', ", "))))
            }
        }
    }

    /// Takes the elements of all lists, as they follow each other in the file.
    pub(super) fn take_elements(&mut self) -> Vec<(Access, Spanned<Element>)> {
        let files = std::mem::take(&mut self.document.files);
        let lists = [
            (Access::Hide, files.hide),
            (Access::Read, files.read),
            (Access::Overlay, files.overlay),
            (Access::Private, files.private),
            (Access::Write, files.write),
        ];
        let mut elements: Vec<_> = lists
            .into_iter()
            .flat_map(|(access, list)| list.into_iter().map(move |element| (access, element)))
            .collect();
        elements.sort_by_key(|(_, element)| element.span().start);
        elements
    }

    pub(super) fn origin(&self, offset: usize) -> Origin {
        let (line, column) = self.text.place(offset);
        Origin::File { path: self.path.clone(), line, column }
    }

    pub(super) fn fault(&self, offset: usize, problem: Problem) -> Error {
        let excerpt = Some(self.text.excerpt(offset));
        Error::Written { origin: self.origin(offset), problem: Box::new(problem), excerpt }
    }
}

fn read(path: &Path) -> io::Result<(String, Stamp)> {
    let mut file = fs::File::open(path)?;
    let found = file.metadata()?;
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok((text, Stamp { inode: found.ino(), size: found.len(), changed: (found.ctime(), found.ctime_nsec()) }))
}

/// A text that knows its lines.
struct Text {
    source: String,
    /// Where each line begins.
    lines: Vec<usize>,
    is_ascii: bool,
}

impl Text {
    fn new(source: String) -> Self {
        let breaks = source.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(index, _)| index + 1);
        let lines = std::iter::once(0).chain(breaks).collect();
        let is_ascii = source.is_ascii();
        Self { source, lines, is_ascii }
    }

    /// Line and column, from 1; columns count characters.
    fn place(&self, offset: usize) -> (usize, usize) {
        let line = self.lines.partition_point(|start| *start <= offset).max(1);
        let start = self.lines[line - 1];
        let before = if self.is_ascii { offset - start } else { self.source.get(start..offset).map_or(0, count) };
        (line, before + 1)
    }

    /// The line of a place, numbered, and a caret below the place.
    fn excerpt(&self, offset: usize) -> String {
        let (line, column) = self.place(offset);
        let text = self.source[self.lines[line - 1]..].lines().next().unwrap_or_default();
        let skipped = if count(text) > EXCERPT { column.saturating_sub(EXCERPT / 2) } else { 0 };
        let shown: String = text.chars().skip(skipped).take(EXCERPT).map(printable).collect();
        let padding: String =
            shown.chars().take(column - 1 - skipped).map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
        let number = line.to_string();
        let mut excerpt = format!("{number} | {shown}\n");
        let _ = write!(excerpt, "{:width$} | {padding}^", "", width = number.len());
        excerpt
    }
}

fn count(text: &str) -> usize {
    text.chars().count()
}

/// A terminal must not be steered by what a file holds.
fn printable(character: char) -> char {
    if character.is_control() && character != '\t' { '\u{fffd}' } else { character }
}

/// By hand and not `#[serde(untagged)]`, which copies every element before it tries each form, and loses the places and
/// the messages.
impl<'de> Deserialize<'de> for Element {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ElementVisitor)
    }
}

struct ElementVisitor;

impl<'de> Visitor<'de> for ElementVisitor {
    type Value = Element;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a path or a table with `path`")
    }

    fn visit_str<E: de::Error>(self, path: &str) -> Result<Element, E> {
        self.visit_string(path.to_owned())
    }

    fn visit_string<E: de::Error>(self, path: String) -> Result<Element, E> {
        Ok(Element { path, optional: false, size: None, backing: None, scope: None, reason: None })
    }

    fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<Element, M::Error> {
        let ElementTable { path, optional, size, backing, scope, reason } =
            ElementTable::deserialize(MapAccessDeserializer::new(map))?;
        Ok(Element { path, optional, size, backing, scope, reason })
    }
}

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let parsed = humantime::parse_duration(&text);
    parsed
        .map(Some)
        .map_err(|_| de::Error::custom(format!("bad duration `{text}`, expected one such as `7d` or `12h`")))
}

fn size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    deserializer.deserialize_any(SizeVisitor).map(Some)
}

struct SizeVisitor;

impl Visitor<'_> for SizeVisitor {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a size in bytes or one such as \"512M\" or \"1G\"")
    }

    fn visit_i64<E: de::Error>(self, bytes: i64) -> Result<u64, E> {
        u64::try_from(bytes)
            .ok()
            .filter(|bytes| *bytes > 0)
            .ok_or_else(|| E::invalid_value(de::Unexpected::Signed(bytes), &self))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<u64, E> {
        parse_size(text).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
    }
}

/// A positive number with K, M, G or T for powers of 1024.
#[must_use]
pub fn parse_size(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" => 0,
        "K" | "k" | "KiB" => 10,
        "M" | "m" | "MiB" => 20,
        "G" | "g" | "GiB" => 30,
        "T" | "t" | "TiB" => 40,
        _ => return None,
    };
    let number = digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse::<u64>().ok())??;
    number.checked_mul(1 << unit).filter(|bytes| *bytes > 0)
}
