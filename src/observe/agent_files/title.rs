//! Names an agent's file as its owner would: by the project and the first prompt at its beginning.

use std::path::Path;

use rustix::fs::OFlags;
use serde_json::Value;

use super::file::read_small;
use crate::agent::{AgentEvent, Format, StreamParser, one_line};
use crate::text::first_chars;
use crate::timestamp::Timestamp;

/// The size of the beginning of a file that has the first prompt.
pub(super) const TITLE_BYTES_MAX: u64 = 128 * 1024;

/// The most characters of the prompt in a title.
const PROMPT_CHARS_MAX: usize = 80;

/// Returns the project and the first prompt of an agent's file; `None` if its beginning has no prompt.
pub(super) fn title_of(path: &Path) -> Option<String> {
    let bytes = read_small(path, OFlags::empty(), TITLE_BYTES_MAX)?;
    let prompt = first_prompt(&bytes)?;
    let prompt = first_chars(&prompt, PROMPT_CHARS_MAX);
    Some(match project_of(path, &bytes) {
        Some(project) => format!("{project}: {prompt}"),
        None => prompt.to_owned(),
    })
}

fn first_prompt(bytes: &[u8]) -> Option<String> {
    let mut parser = StreamParser::new(Format::Auto);
    let (now, mut events) = (Timestamp::default(), Vec::new());
    parser.push(bytes, now, &mut events);
    parser.finish(now, &mut events);
    let mut prompts = events.into_iter().filter_map(|event| match event {
        AgentEvent::PromptSent { prompt_summary, .. } => Some(one_line(&prompt_summary)),
        _ => None,
    });
    prompts.find(|prompt| !prompt.is_empty())
}

/// Returns the last part of the directory in which the agent was started. Gemini CLI and Qwen Code keep the files of
/// a project in a directory of its name.
fn project_of(path: &Path, bytes: &[u8]) -> Option<String> {
    let lines = bytes.split(|byte| *byte == b'\n');
    let records = lines.filter(|line| memchr::memmem::find(line, b"\"cwd\"").is_some());
    let directory = records.take(20).find_map(|line| {
        let record: Value = serde_json::from_slice(line).ok()?;
        let directory = record
            .get("cwd")
            .or_else(|| record.get("payload")?.get("cwd"));
        Some(directory?.as_str()?.to_owned())
    });
    if let Some(directory) = directory {
        let name = Path::new(&directory).file_name()?;
        return Some(name.to_string_lossy().into_owned());
    }
    let chats = path.parent().filter(|parent| parent.ends_with("chats"))?;
    let project = chats.parent()?.file_name()?.to_string_lossy().into_owned();
    // Older versions use a digest of the path.
    let is_digest = project.len() == 64 && project.bytes().all(|byte| byte.is_ascii_hexdigit());
    (!is_digest).then_some(project)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_is_named_by_its_project_and_its_first_prompt() {
        let temp = tempfile::tempdir().unwrap();
        let title = |path: &str, text: &str| {
            let path = temp.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            title_of(&path)
        };
        let claude = r#"{"type":"user","cwd":"/home/u/api","sessionId":"s","message":{"role":"user","content":"Fix the login\nplease"}}"#;
        assert_eq!(
            title("a.jsonl", claude).as_deref(),
            Some("api: Fix the login please")
        );
        let codex = concat!(
            r#"{"timestamp":"2026-01-01T00:00:00Z","type":"session_meta","payload":{"id":"x","cwd":"/work/web"}}"#,
            "\n",
            r#"{"timestamp":"2026-01-01T00:00:01Z","type":"event_msg","payload":{"type":"user_message","message":"go on"}}"#,
            "\n"
        );
        assert_eq!(title("b.jsonl", codex).as_deref(), Some("web: go on"));
        assert_eq!(title("c.output", "no prompt\n"), None);
    }
}
