//! Files line by line, whatever is in them.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// A longer line is skipped: no tool's answer is that long, and memory is not without end.
const LONGEST: u64 = 64 << 20;

/// Gives every line to `each`, and `None` for one that is too long.
///
/// # Errors
/// When the file cannot be read to its end.
pub(super) fn lines(path: &Path, mut each: impl FnMut(Option<&[u8]>)) -> io::Result<()> {
    let mut reader = BufReader::new(File::open(path)?);
    let mut line = Vec::new();
    loop {
        line.clear();
        if reader.by_ref().take(LONGEST).read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        if line.len() as u64 == LONGEST && !line.ends_with(b"\n") {
            reader.skip_until(b'\n')?;
            each(None);
        } else {
            each(Some(&line));
        }
    }
}
