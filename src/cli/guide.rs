//! `td-observe help`: prints chapters of the guide and the help of commands.

use std::borrow::Cow;
use std::ffi::OsString;
use std::process::ExitCode;

use super::args::visible_subcommands;
use super::chapters::{self, CHAPTERS, Chapter};
use super::command_line::{self, NotParsed};
use super::failure::Failure;
use super::markdown;
use super::nearest;
use super::pager;

/// Prints a chapter, the help of a command, or the list of both.
pub(super) fn run(words: &[OsString]) -> Result<ExitCode, Failure> {
    let names: Vec<String> = (words.iter())
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let Some(first) = names.first() else {
        return super::output::print(&list());
    };
    let chapter = match names.len() {
        1 => CHAPTERS.iter().find(|chapter| chapter.name == first),
        _ => None,
    };
    match (help_of(&names), chapter) {
        (Some(help), None) => pager::page(&sanitized(&help.render().to_string())),
        (None, Some(chapter)) => pager::page(&sanitized(&rendered(chapter))),
        (Some(help), Some(chapter)) => {
            let rule = "-".repeat(79);
            let both = format!("{}\n{rule}\n\n{}", help.render(), rendered(chapter));
            pager::page(&sanitized(&both))
        }
        (None, None) => Err(unknown(&names)),
    }
}

/// Returns the text of a chapter, laid out for a terminal if there is one.
fn rendered(chapter: &Chapter) -> Cow<'static, str> {
    match pager::terminal_width() {
        Some(width) => markdown::laid_out(chapter.text, width).into(),
        None => chapter.text.into(),
    }
}

/// Returns the help of a command, if these words name one.
fn help_of(names: &[String]) -> Option<clap::Error> {
    let mut command = command_line::command();
    let mut named = &mut command;
    for name in names {
        named = named
            .find_subcommand_mut(name)
            .filter(|command| !command.is_hide_set())?;
    }
    let words = ["td-observe"]
        .into_iter()
        .chain(names.iter().map(String::as_str));
    match command_line::parse(words.chain(["--help"]).map(OsString::from)) {
        Err(NotParsed::Clap(help)) if !help.use_stderr() => Some(help),
        _ => None,
    }
}

/// Returns a list of the commands and chapters, one line each.
fn list() -> String {
    let command = command_line::command();
    let commands = visible_subcommands(&command).map(|command| {
        let about = command
            .get_about()
            .map(ToString::to_string)
            .unwrap_or_default();
        format!("  {:<12} {about}\n", command.get_name())
    });
    let chapters = CHAPTERS
        .iter()
        .map(|chapter| format!("  {:<12} {}\n", chapter.name, chapter.about));
    format!(
        "Commands (td-observe help COMMAND, or td-observe COMMAND --help):\n{}\n\
         Chapters of the guide (td-observe help TOPIC):\n{}",
        commands.collect::<String>(),
        chapters.collect::<String>()
    )
}

fn unknown(names: &[String]) -> Failure {
    let command = command_line::command();
    let commands = visible_subcommands(&command).map(clap::Command::get_name);
    let known: Vec<&str> = chapters::names()
        .map(|name| name as &str)
        .chain(commands)
        .collect();
    let typed = names.join(" ");
    let hint = nearest::suggestion(&typed, known);
    usage!(
        "help: there is no command or chapter {typed:?}{hint} the chapters are {}; \
         td-observe help lists all",
        chapters::names().collect::<Vec<_>>().join(", ")
    )
}

/// Sanitizes each line for a terminal.
fn sanitized(text: &str) -> String {
    let lines = text.lines().map(crate::face::one_line);
    lines.flat_map(|line| [line, "\n".to_owned()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Joins each line that ends in a backslash with the next one.
    fn joined(text: &str) -> String {
        let mut parts = text.split("\\\n");
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |text, part| {
            format!("{} {}", text.trim_end(), part.trim_start())
        })
    }

    /// Splits a line into its commands, at pipes, redirections and `&&`.
    fn commands(line: &str) -> Vec<Vec<String>> {
        let words = shlex::split(line).unwrap_or_default();
        let ends = ["|", "&&", ">", "<", ">>"];
        let parts = words.split(|word| ends.contains(&word.as_str()));
        parts.map(<[String]>::to_vec).collect()
    }

    #[track_caller]
    fn assert_parses(line: &str, place: &str) -> usize {
        let ours = commands(line);
        let ours = ours
            .iter()
            .filter(|words| words.first().is_some_and(|word| word == "td-observe"));
        let mut count = 0;
        for words in ours {
            count += 1;
            match command_line::parse(words.iter().map(OsString::from)) {
                Ok(_) => {}
                Err(NotParsed::Clap(error)) if !error.use_stderr() => {}
                Err(NotParsed::Clap(error)) => panic!("{place}: {line}: {error}"),
                Err(NotParsed::Refused(failure)) => panic!("{place}: {line}: {failure:?}"),
            }
        }
        count
    }

    #[test]
    fn each_chapter_has_a_title_and_a_module() {
        for chapter in CHAPTERS {
            assert!(chapter.text.starts_with("# "), "{}", chapter.name);
            assert!(list().contains(chapter.about), "{}", chapter.name);
            let module = format!("pub mod {} {{}}", chapter.name);
            assert!(
                include_str!("../guide/mod.rs").contains(&module),
                "{module}"
            );
        }
    }

    #[test]
    fn all_examples_of_the_guide_parse() {
        let readme = ("README", include_str!("../../README.md"));
        let mut count = 0;
        for (name, text) in chapters::texts().chain([readme]) {
            let text = joined(text);
            let mut in_shell = false;
            for line in text.lines() {
                match line.strip_prefix("```") {
                    Some(kind) => in_shell = kind == "sh",
                    None if in_shell => count += assert_parses(line, name),
                    None => {}
                }
            }
            // References to other chapters are commands that work.
            for (_, rest) in text
                .match_indices("`td-observe help ")
                .map(|(at, found)| text.split_at(at + found.len()))
            {
                let topic = rest.split('`').next().unwrap_or_default();
                assert!(
                    topic == "TOPIC" || chapters::names().any(|name| name == topic),
                    "{name}: {topic}"
                );
            }
        }
        assert!(count > 30, "{count}");
    }

    #[test]
    fn all_examples_of_the_help_parse() {
        let mut count = 0;
        for command in command_line::command().get_subcommands() {
            let text = command
                .get_after_help()
                .map(ToString::to_string)
                .unwrap_or_default();
            for line in joined(&text).lines() {
                let Some(example) = line.strip_prefix("  td-observe ") else {
                    continue;
                };
                // The description of an example follows two or more blanks.
                let typed = example.trim_start().split("   ").next().unwrap_or_default();
                let typed = typed.split("  ").next().unwrap_or_default();
                let line = match shlex::split(typed) {
                    Some(_) => format!("td-observe {typed}"),
                    // An example with a multi-line string contains such blanks itself.
                    None => format!("td-observe {example}"),
                };
                count += assert_parses(&line, command.get_name());
            }
        }
        assert!(count > 50, "{count}");
    }
}
