//! Reads the files that the user names as input, within a bound; `-` is standard input.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use super::failure::Failure;

/// Reads a file of at most `bytes_max` bytes, which are enough for `content`.
pub(super) fn read(path: &Path, bytes_max: u64, content: &str) -> Result<Vec<u8>, Failure> {
    let name = name(path);
    let unreadable = |cause| usage!("cannot read {name}: {cause}");
    let source: Box<dyn Read> = match is_stdin(path) {
        true => Box::new(io::stdin()),
        false => Box::new(File::open(path).map_err(unreadable)?),
    };
    let mut bytes = Vec::new();
    // The byte beyond the bound shows that there are more.
    let read = source.take(bytes_max + 1).read_to_end(&mut bytes);
    if read.map_err(unreadable)? as u64 > bytes_max {
        return Err(usage!(
            "{name} is larger than {} MiB, which is too large for {content}",
            bytes_max >> 20
        ));
    }
    Ok(bytes)
}

/// Reads a file as [`read`] does, and refuses invalid UTF-8.
#[cfg(feature = "kernel")]
pub(super) fn read_text(path: &Path, bytes_max: u64, content: &str) -> Result<String, Failure> {
    String::from_utf8(read(path, bytes_max, content)?).map_err(|_| {
        usage!(
            "cannot read {}: stream did not contain valid UTF-8",
            name(path)
        )
    })
}

fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

fn name(path: &Path) -> String {
    match is_stdin(path) {
        true => "standard input".to_owned(),
        false => format!("{path:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_beyond_the_bound_is_refused_and_not_cut() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("code.py");
        std::fs::write(&path, "12345").unwrap();
        assert_eq!(read(&path, 5, "code").unwrap(), b"12345");
        let refused = read(&path, 4, "code").unwrap_err();
        assert!(
            refused.text().contains("is larger than"),
            "{}",
            refused.text()
        );
    }
}
