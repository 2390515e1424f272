//! `td-observe help`: the chapters of the guide, which are part of the program, and the help of commands.

use std::borrow::Cow;
use std::ffi::OsString;
use std::process::ExitCode;

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
        super::output::print(&list())?;
        return Ok(ExitCode::SUCCESS);
    };
    let chapter = match names.len() {
        1 => CHAPTERS.iter().find(|chapter| chapter.name == first),
        _ => None,
    };
    match (help_of(&names), chapter) {
        (Some(help), None) => {
            // Its width and its colours are clap's.
            let _ = help.print();
        }
        (None, Some(chapter)) => pager::page(&safe(&shown(chapter)))?,
        (Some(help), Some(chapter)) => {
            let rule = "-".repeat(79);
            let both = format!("{}\n{rule}\n\n{}", help.render(), shown(chapter));
            pager::page(&safe(&both))?;
        }
        (None, None) => return Err(unknown(&names)),
    }
    Ok(ExitCode::SUCCESS)
}

/// The text of a chapter: laid out for a terminal, elsewhere as it is.
fn shown(chapter: &Chapter) -> Cow<'static, str> {
    match pager::terminal_width() {
        Some(width) => markdown::laid_out(chapter.text, width).into(),
        None => chapter.text.into(),
    }
}

/// The help of a command, if these words name one.
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

/// Commands and chapters, a line each.
fn list() -> String {
    let command = command_line::command();
    let commands = command
        .get_subcommands()
        .filter(|command| !command.is_hide_set());
    let commands = commands.map(|command| {
        let about = command
            .get_about()
            .map(ToString::to_string)
            .unwrap_or_default();
        format!("  {:<12} {about}\n", command.get_name())
    });
    let chapters = (CHAPTERS.iter()).map(|it| format!("  {:<12} {}\n", it.name, it.about));
    format!(
        "Commands (td-observe help COMMAND, or td-observe COMMAND --help):\n{}\n\
         Chapters of the guide (td-observe help TOPIC):\n{}",
        commands.collect::<String>(),
        chapters.collect::<String>()
    )
}

fn unknown(names: &[String]) -> Failure {
    let command = command_line::command();
    let commands = command
        .get_subcommands()
        .filter(|command| !command.is_hide_set());
    let typed = names.join(" ");
    let all: Vec<&str> = CHAPTERS
        .iter()
        .map(|chapter| chapter.name)
        .chain(commands.map(clap::Command::get_name))
        .collect();
    let meant = nearest::nearest(&typed, all.iter().copied());
    let meant = meant.map_or_else(
        || ";".to_owned(),
        |name| format!("; did you mean {name:?}?"),
    );
    Failure::usage(format!(
        "help: no command and no chapter is called {typed:?}{meant} the chapters are {}; \
         td-observe help lists all",
        chapters::names().collect::<Vec<_>>().join(", ")
    ))
}

/// Makes each line safe for a terminal.
fn safe(text: &str) -> String {
    let lines = text.lines().map(crate::face::one_line);
    lines.flat_map(|line| [line, "\n".to_owned()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text with each line that ends in a backslash joined with the next one.
    fn joined(text: &str) -> String {
        let mut parts = text.split("\\\n");
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |text, part| {
            format!("{} {}", text.trim_end(), part.trim_start())
        })
    }

    /// The commands of a line: what is before a pipe or `&&`, and what is after it.
    fn commands(line: &str) -> Vec<Vec<String>> {
        let words = shlex::split(line).unwrap_or_default();
        let ends = ["|", "&&", ">", "<", ">>"];
        let parts = words.split(|word| ends.contains(&word.as_str()));
        parts.map(<[String]>::to_vec).collect()
    }

    #[track_caller]
    fn assert_understood(line: &str, place: &str) -> usize {
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
    fn the_program_understands_all_examples_of_the_guide() {
        let readme = ("README", include_str!("../../README.md"));
        let mut count = 0;
        for (name, text) in chapters::texts().chain([readme]) {
            let text = joined(text);
            let mut in_shell = false;
            for line in text.lines() {
                match line.strip_prefix("```") {
                    Some(kind) => in_shell = kind == "sh",
                    None if in_shell => count += assert_understood(line, name),
                    None => {}
                }
            }
            // The chapters name one another by commands that work.
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
    fn the_program_understands_all_examples_of_its_help() {
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
                // What the example does is beside it, behind two blanks or more.
                let typed = example.trim_start().split("   ").next().unwrap_or_default();
                let typed = typed.split("  ").next().unwrap_or_default();
                let line = match shlex::split(typed) {
                    Some(_) => format!("td-observe {typed}"),
                    // A string of several lines has such blanks itself.
                    None => format!("td-observe {example}"),
                };
                count += assert_understood(&line, command.get_name());
            }
        }
        assert!(count > 50, "{count}");
    }
}
