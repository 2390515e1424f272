//! Names a directory as its owner would: by its Git repository and branch, else by its last part.

use std::path::Path;

use rustix::fs::OFlags;

use super::file::read_small;
use crate::text::first_chars;

/// Returns the name of a directory: the path within its Git repository, from the repository's own directory on, with
/// the branch, as `api (main)`; else its last part.
pub(super) fn directory_name(path: &Path, home: Option<&Path>) -> Option<String> {
    let last = |path: &Path| Some(path.file_name()?.to_string_lossy().into_owned());
    let root = path
        .ancestors()
        .find_map(|root| Some((root, branch_of(root)?)));
    let Some((root, branch)) = root else {
        return match last(path) {
            _ if home == Some(path) => Some("~".to_owned()),
            None => Some("/".to_owned()),
            // The kernel marks a directory that was removed.
            Some(name) => Some(name.strip_suffix(" (deleted)").unwrap_or(&name).to_owned()),
        };
    };
    let mut parts = vec![last(root)?];
    let below = path.strip_prefix(root).ok()?;
    parts.extend(below.iter().map(|part| part.to_string_lossy().into_owned()));
    if parts.len() > 3 {
        // A long path keeps its ends.
        parts.splice(1..parts.len() - 1, ["…".to_owned()]);
    }
    Some(format!("{} ({branch})", parts.join("/")))
}

/// The size limit of the files of Git that name a branch.
const BYTES_MAX: u64 = 4096;

/// Returns the branch of the Git repository at this directory, or the beginning of its commit. `None` if it is no
/// repository.
fn branch_of(root: &Path) -> Option<String> {
    let text = |path: &Path| {
        let bytes = read_small(path, OFlags::empty(), BYTES_MAX)?;
        String::from_utf8(bytes).ok()
    };
    let git = root.join(".git");
    let directory = match std::fs::metadata(&git).ok()? {
        kind if kind.is_dir() => git,
        // A worktree or a submodule.
        _ => root.join(text(&git)?.strip_prefix("gitdir:")?.trim()),
    };
    let head = text(&directory.join("HEAD"))?;
    let head = head.trim();
    Some(match head.strip_prefix("ref:") {
        Some(name) => {
            let name = name.trim();
            name.strip_prefix("refs/heads/").unwrap_or(name).to_owned()
        }
        None => first_chars(head, 7).to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_directory_has_its_repository_and_its_branch() {
        let temp = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = temp.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("api/.git/HEAD", "ref: refs/heads/fix/login\n");
        write("api/src/a/b/deep/x", "");
        write("api/.git/worktrees/two/HEAD", "0123456789abcdef\n");
        write("two/.git", "gitdir: ../api/.git/worktrees/two\n");
        write("broken/.git", "nothing");
        write("plain/x", "");
        let home = temp.path().join("plain");
        let name = |path: &str| directory_name(&temp.path().join(path), Some(&home)).unwrap();
        assert_eq!(name("api"), "api (fix/login)");
        assert_eq!(name("api/src"), "api/src (fix/login)");
        assert_eq!(name("api/src/a/b/deep"), "api/…/deep (fix/login)");
        assert_eq!(name("two"), "two (0123456)");
        assert_eq!(name("broken"), "broken");
        assert_eq!(name("plain"), "~");
        assert_eq!(name("gone (deleted)"), "gone");
        assert_eq!(directory_name(Path::new("/"), None).unwrap(), "/");
    }
}
