//! Rust source as tokens with their lines, without comments, test code and the content of literals.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

/// One token: brackets are separate tokens, `::` is one token, literals become `""`.
#[derive(Clone, Debug)]
pub struct Token {
    pub text: String,
    pub line: usize,
}

/// A file's tokens.
#[derive(Clone, Debug)]
pub struct Source {
    /// From the package's root: `src/history/mod.rs`.
    pub file: String,
    /// The file's module path: `["log", "line"]`; empty for the crate's root.
    pub module: Vec<String>,
    pub text: String,
    pub tokens: Vec<Token>,
    /// Lines with a token outside of comments.
    pub code_lines: BTreeSet<usize>,
    /// Modules that are declared for tests only.
    pub test_modules: Vec<Vec<String>>,
}

/// A path in the source. A `use` of a group gives one path for each of its names.
#[derive(Clone, Debug)]
pub struct NamedPath {
    pub segments: Vec<String>,
    pub line: usize,
    /// The place of the path.
    pub site: PathSite,
    /// The name that a `use` gives the path.
    alias: Option<String>,
    /// The module that contains the path.
    module: Vec<String>,
}

/// The place of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathSite {
    Code,
    Import,
    /// A `use` with a visibility.
    Reexport,
}

impl Source {
    /// Parses a file without items under `#[cfg(test)]` and `#[test]`.
    #[track_caller]
    pub fn parse(file: &str, text: &str) -> Self {
        let inner = file
            .strip_prefix("src/")
            .unwrap_or(file)
            .trim_end_matches(".rs");
        let mut module: Vec<String> = inner.split('/').map(str::to_owned).collect();
        if matches!(
            module.last().map(String::as_str),
            Some("mod" | "lib" | "main")
        ) {
            module.pop();
        }
        let stream: TokenStream = text
            .parse()
            .unwrap_or_else(|error| panic!("{file} is no Rust: {error}"));
        let mut source = Self {
            file: file.to_owned(),
            module: module.clone(),
            text: text.to_owned(),
            tokens: Vec::new(),
            code_lines: BTreeSet::new(),
            test_modules: Vec::new(),
        };
        source.flatten(stream, &module);
        source
    }

    /// Returns true if it belongs to the library rather than to the program's own root.
    pub fn is_in_library(&self) -> bool {
        !matches!(&*self.file, "src/main.rs" | "src/lib.rs")
    }

    fn flatten(&mut self, stream: TokenStream, module: &[String]) {
        let trees: Vec<TokenTree> = stream.into_iter().collect();
        let mut at = 0;
        while let Some(tree) = trees.get(at) {
            if is_test_attribute(&trees[at..]) {
                at = self.skip_item(&trees, at, module);
                continue;
            }
            at += 1;
            let line = tree.span().start().line;
            if self.is_comment(tree) {
                // Its text, behind a `!` in a comment on what encloses it.
                at += 1 + usize::from(trees.get(at).is_some_and(|next| is(next, "!")));
                continue;
            }
            if !matches!(tree, TokenTree::Group(_)) {
                self.code_lines.extend(line..=tree.span().end().line);
            }
            match tree {
                TokenTree::Group(group) => {
                    let inner = match &trees[..at - 1] {
                        [.., keyword, name]
                            if is(keyword, "mod") && group.delimiter() == Delimiter::Brace =>
                        {
                            [module, &[name.to_string()]].concat()
                        }
                        _ => module.to_vec(),
                    };
                    self.group(group, &inner);
                }
                TokenTree::Literal(_) => self.push("\"\"", line),
                TokenTree::Punct(punct) if punct.as_char() == ':' => {
                    if trees.get(at).is_some_and(|next| is(next, ":")) {
                        at += 1;
                        self.push("::", line);
                    } else {
                        self.push(":", line);
                    }
                }
                other => self.push(&other.to_string(), line),
            }
        }
    }

    fn group(&mut self, group: &Group, module: &[String]) {
        let (open, close) = match group.delimiter() {
            Delimiter::Parenthesis => ("(", ")"),
            Delimiter::Brace => ("{", "}"),
            Delimiter::Bracket => ("[", "]"),
            Delimiter::None => ("", ""),
        };
        // Inline modules are marked, so that `super` can be resolved.
        if group.delimiter() == Delimiter::Brace && module.len() > self.module.len() {
            self.push(
                &format!("{{{}", module.join("::")),
                group.span_open().start().line,
            );
        } else {
            self.push(open, group.span_open().start().line);
        }
        self.code_lines.insert(group.span_open().start().line);
        self.flatten(group.stream(), module);
        self.code_lines.insert(group.span_close().start().line);
        self.push(close, group.span_close().start().line);
    }

    /// Returns true for the first token of the attribute that a doc comment becomes.
    fn is_comment(&self, tree: &TokenTree) -> bool {
        let start = tree.span().start();
        let line = || self.text.lines().nth(start.line.saturating_sub(1));
        is(tree, "#") && line().is_some_and(|line| line.chars().nth(start.column) == Some('/'))
    }

    fn push(&mut self, text: &str, line: usize) {
        self.tokens.push(Token {
            text: text.to_owned(),
            line,
        });
    }

    /// Returns the end of the item that the test attribute at `at` belongs to.
    fn skip_item(&mut self, trees: &[TokenTree], at: usize, module: &[String]) -> usize {
        let mut end = at;
        // This attribute and those after it.
        while trees.get(end).is_some_and(|tree| is(tree, "#")) {
            end += 2;
        }
        let mut is_item = false;
        while let Some(tree) = trees.get(end) {
            end += 1;
            if let TokenTree::Ident(ident) = tree {
                let word = ident.to_string();
                if word == "mod"
                    && let (Some(name), Some(semicolon)) = (trees.get(end), trees.get(end + 1))
                    && is(semicolon, ";")
                {
                    self.test_modules
                        .push([module, &[name.to_string()]].concat());
                }
                is_item |= matches!(
                    &*word,
                    "mod" | "fn" | "use" | "impl" | "struct" | "enum" | "trait" | "type" | "const"
                );
            }
            let is_block =
                matches!(tree, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace);
            if is_block || is(tree, ";") || !is_item && is(tree, ",") {
                break;
            }
        }
        end
    }

    /// Returns all paths of two segments and more, and all names in `use` items.
    pub fn paths(&self) -> Vec<NamedPath> {
        let mut found = Vec::new();
        let mut modules = vec![self.module.clone()];
        let mut at = 0;
        while let Some(token) = self.tokens.get(at) {
            match token.text.as_str() {
                "use" => {
                    let site = match at.checked_sub(1).map(|before| self.text_at(before)) {
                        Some("pub" | ")") => PathSite::Reexport,
                        _ => PathSite::Import,
                    };
                    let first = found.len();
                    at = self.tree(at + 1, &[], &modules, &mut found);
                    found[first..].iter_mut().for_each(|path| path.site = site);
                }
                // `pub(in crate::module)` is a visibility.
                "in" if at > 1 && self.text_at(at - 2) == "pub" => {
                    at = self.tree(at + 1, &[], &modules, &mut Vec::new());
                }
                open if open.starts_with('{') => {
                    let inner = match &open[1..] {
                        "" => modules.last().cloned().unwrap_or_default(),
                        path => path.split("::").map(str::to_owned).collect(),
                    };
                    modules.push(inner);
                    at += 1;
                }
                "}" => {
                    modules.pop();
                    at += 1;
                }
                word if is_word(word) && self.text_at(at + 1) == "::" => {
                    at = self.tree(at, &[], &modules, &mut found);
                }
                _ => at += 1,
            }
        }
        found
    }

    /// Returns the words outside of `use` items.
    pub fn words_outside_use(&self) -> BTreeSet<&str> {
        let mut is_in_use = false;
        let mut words = BTreeSet::new();
        for token in &self.tokens {
            match token.text.as_str() {
                "use" => is_in_use = true,
                ";" => is_in_use = false,
                word if !is_in_use && is_word(word) => {
                    words.insert(word);
                }
                _ => {}
            }
        }
        words
    }

    /// Reads one path, or one branch of a `use` tree, and returns its end.
    fn tree(
        &self,
        mut at: usize,
        before: &[String],
        modules: &[Vec<String>],
        found: &mut Vec<NamedPath>,
    ) -> usize {
        let line = self.tokens.get(at).map_or(0, |token| token.line);
        let mut segments = before.to_vec();
        let mut alias = None;
        loop {
            match self.text_at(at) {
                "::" => at += 1,
                open if open.starts_with('{')
                    && (segments.len() > before.len()
                        || self.text_at(at.wrapping_sub(1)) == "::") =>
                {
                    at += 1;
                    while !matches!(self.text_at(at), "}" | "") {
                        at = self.tree(at, &segments, modules, found).max(at + 1);
                        if self.text_at(at) == "," {
                            at += 1;
                        }
                    }
                    return at + 1;
                }
                word if is_word(word) || word == "*" => {
                    segments.push(word.to_owned());
                    at += 1;
                    if self.text_at(at) == "as" {
                        alias = Some(self.text_at(at + 1).to_owned());
                        at += 2;
                    }
                    if self.text_at(at) != "::" {
                        break;
                    }
                }
                _ => break,
            }
        }
        let module = modules.last().cloned().unwrap_or_default();
        found.push(NamedPath {
            segments,
            line,
            site: PathSite::Code,
            alias,
            module,
        });
        at
    }

    fn text_at(&self, at: usize) -> &str {
        self.tokens.get(at).map_or("", |token| &token.text)
    }

    /// Returns the modules that the file declares, in their order.
    pub fn declared_modules(&self) -> Vec<String> {
        let declared = self
            .tokens
            .windows(3)
            .filter(|w| w[0].text == "mod" && w[2].text == ";");
        declared.map(|w| w[1].text.clone()).collect()
    }

    /// Maps each name that the file re-exports to its module; `module::*` gives `*`.
    pub fn reexports(&self) -> BTreeMap<String, String> {
        let paths = self.paths().into_iter();
        paths
            .filter_map(|path| {
                Some((
                    path.segments.last()?.clone(),
                    path.segments.first()?.clone(),
                ))
            })
            .collect()
    }
}

impl NamedPath {
    /// Returns the path from the crate's root; `None` for a path that begins with another name.
    pub fn absolute(&self) -> Option<Vec<String>> {
        let supers = self.leading("super");
        let (base, skipped) = match self.segments.first()?.as_str() {
            "crate" => (&[][..], 1),
            "self" => (&self.module[..], 1),
            "super" => (
                &self.module[..self.module.len().checked_sub(supers)?],
                supers,
            ),
            _ => return None,
        };
        Some([base, &self.segments[skipped..]].concat())
    }

    /// Returns the path as one below the module that contains it.
    pub fn below_module(&self) -> Vec<String> {
        [&self.module[..], &self.segments].concat()
    }

    /// Returns the name that a `use` brings into scope: `self` stands for the module.
    pub fn imported_name(&self) -> Option<&str> {
        if let Some(alias) = &self.alias {
            return Some(alias);
        }
        let mut names = self.segments.iter().rev();
        names.find(|name| *name != "self").map(String::as_str)
    }

    fn leading(&self, word: &str) -> usize {
        let leading = self.segments.iter().take_while(|segment| *segment == word);
        leading.count()
    }

    pub fn name(&self) -> String {
        self.segments.join("::")
    }

    /// Returns true if the path contains the segments of `part`, side by side.
    pub fn contains(&self, part: &str) -> bool {
        let part: Vec<&str> = part.split("::").collect();
        self.segments
            .windows(part.len())
            .any(|window| window == part)
    }

    /// Returns the top-level module of this crate that the path names, if any.
    pub fn room(&self, roots: &BTreeMap<String, String>) -> Option<String> {
        let first = self.segments.first()?;
        let name = if first == "crate" {
            self.segments.get(1)?
        } else {
            let supers = self.leading("super");
            if supers == 0 || supers < self.module.len() {
                return None;
            }
            self.segments.get(supers)?
        };
        if name == "*" {
            return None;
        }
        let is_type = name.starts_with(char::is_uppercase);
        Some(match roots.get(name) {
            Some(room) => room.clone(),
            // The names that `pub use event::*` re-exports.
            None if is_type => "event".to_owned(),
            None => name.clone(),
        })
    }
}

fn is(tree: &TokenTree, text: &str) -> bool {
    match tree {
        TokenTree::Ident(ident) => ident == text,
        TokenTree::Punct(punct) => text.len() == 1 && text.starts_with(punct.as_char()),
        TokenTree::Group(_) | TokenTree::Literal(_) => false,
    }
}

fn is_word(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Returns true for `#[cfg(test)]`, `#[cfg(all(test, …))]` and `#[test]`.
fn is_test_attribute(trees: &[TokenTree]) -> bool {
    let [hash, TokenTree::Group(group), ..] = trees else {
        return false;
    };
    if !is(hash, "#") || group.delimiter() != Delimiter::Bracket {
        return false;
    }
    let text: String = group.stream().to_string().split_whitespace().collect();
    text == "test" || text == "cfg(test)" || text.starts_with("cfg(all(test,")
}
