//! The command line of a drain, quoted for the parser of tmux, its formats and a shell (pure).

use std::ffi::{OsStr, OsString};
use std::fmt::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::Access;

use super::super::procfs::PROGRAM;
use crate::error::{Error, Result};

/// Returns the tmux command that opens the pipe of a pane.
pub(super) fn pipe_pane(pane: &str, program: &Path, socket: &Path, token: &str) -> String {
    let mut shell = b"exec ".to_vec();
    shell.extend(quoted_for_shell(program.as_os_str()));
    let address = hex(socket.as_os_str().as_bytes());
    shell.extend(format!(" drain {address} {token}").into_bytes());
    // -I: tmux also reads from the drain, which never writes. tmux therefore notices the drain's end at once
    // instead of at the pane's next output.
    format!(
        "pipe-pane -I -O -t {pane} {}",
        quoted_for_tmux(&as_format(&shell))
    )
}

/// Quotes a word for `sh`.
fn quoted_for_shell(word: &OsStr) -> Vec<u8> {
    let mut quoted = vec![b'\''];
    for &byte in word.as_bytes() {
        match byte {
            b'\'' => quoted.extend_from_slice(b"'\\''"),
            byte => quoted.push(byte),
        }
    }
    quoted.push(b'\'');
    quoted
}

/// Escapes text so that the formats of tmux, and then `strftime`, expand to the original text.
fn as_format(text: &[u8]) -> Vec<u8> {
    let mut format = Vec::with_capacity(text.len());
    for &byte in text {
        if matches!(byte, b'#' | b'%') {
            format.push(byte);
        }
        format.push(byte);
    }
    format
}

/// Quotes a word for the parser of tmux, including within single quotes.
pub(in crate::tmux) fn quoted_for_tmux(word: &[u8]) -> String {
    let mut quoted = String::with_capacity(word.len() + 2);
    quoted.push('"');
    for &byte in word {
        if byte.is_ascii_alphanumeric() || b" /._-#%".contains(&byte) {
            quoted.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(quoted, "\\{byte:03o}");
        }
    }
    quoted.push('"');
    quoted
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Decodes a path encoded by [`hex`].
pub(super) fn path_of_hex(text: &str) -> Option<PathBuf> {
    let digits = text.as_bytes();
    // `from_str_radix` would accept a sign.
    let is_hex = digits.iter().all(u8::is_ascii_hexdigit);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let bytes: Option<Vec<u8>> = digits.chunks(2).map(byte).collect();
    let bytes = bytes.filter(|_| is_hex && digits.len().is_multiple_of(2) && !digits.is_empty())?;
    Some(OsString::from_vec(bytes).into())
}

/// The program that drains panes: `td-observe`, or another program that passes its second and third argument
/// to [`drain`](super::drain) if the first one is `drain`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrainProgram(PathBuf);

impl DrainProgram {
    /// Returns the program of this process, which must be able to drain panes. On Linux, this works even
    /// after its file has been replaced or removed.
    ///
    /// # Errors
    /// When the path of the program is unknown.
    pub fn this() -> Result<Self> {
        let running = PathBuf::from(format!("/proc/{}/exe", std::process::id()));
        if running.exists() {
            return Ok(Self(running));
        }
        let path = std::env::current_exe().map_err(|cause| {
            Error::other("cannot find the program of this process").because(cause)
        })?;
        Ok(Self(path))
    }

    /// Finds `td-observe`: the program of this process if it has that name, one in the same directory, or one in
    /// `PATH`.
    ///
    /// # Errors
    /// When none is found.
    pub fn find() -> Result<Self> {
        let own = std::env::current_exe().ok();
        let is_named = |path: &PathBuf| path.file_name().is_some_and(|name| name == PROGRAM);
        if own.as_ref().is_some_and(is_named) {
            return Self::this();
        }
        let beside = own.and_then(|own| own.parent().map(Path::to_owned));
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut directories = beside.into_iter().chain(std::env::split_paths(&path));
        let found = directories.find_map(|directory| {
            let program = directory.join(PROGRAM);
            let may_run = rustix::fs::access(&program, Access::EXEC_OK).is_ok();
            (program.is_absolute() && may_run && program.is_file()).then_some(program)
        });
        found.map(Self).ok_or_else(|| {
            Error::other(format!(
                "no {PROGRAM}, which drains panes, is installed beside this program or in PATH"
            ))
        })
    }

    /// Returns the program at a path.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_character_of_a_path_is_interpreted() {
        let command = pipe_pane(
            "%7",
            Path::new("/a b/#S%Y'\"$x\n;é"),
            Path::new("/s"),
            "tok",
        );
        assert_eq!(
            command,
            "pipe-pane -I -O -t %7 \"exec \\047/a b/##S%%Y\\047\\134\\047\\047\\042\\044x\\012\\073\\303\\251\\047 \
         drain 2f73 tok\""
        );
    }

    #[test]
    fn an_encoded_path_decodes_to_itself() {
        for path in ["/tmp/x", "/\u{e9} '#"] {
            let text = hex(path.as_bytes());
            assert_eq!(path_of_hex(&text), Some(path.into()));
        }
        for text in ["", "2", "2g", "+f", "é"] {
            assert_eq!(path_of_hex(text), None, "{text}");
        }
    }
}
