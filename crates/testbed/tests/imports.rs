//! No circle of imports among the files of a crate: of two files one can be read, tested and moved
//! without the other.
//!
//! A file imports another when its code, tests left out, names something that the other defines:
//! in a `use`, or in a path. Names are followed through `pub use` to the file of the definition,
//! and a re-export alone is no import, so a `mod.rs` may show what its children hold. Methods are
//! not looked at: `impl` blocks of one type may stand in several files as long as the file of the
//! type does not import from the others.
//!
//! Modules are followed from `lib.rs` and `main.rs`. `#[path]` and `use …::*` cannot be followed,
//! and fail the test; modules that a macro makes are not seen.
#![allow(clippy::indexing_slicing, reason = "modules are only added, so a number stays valid")]

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fs,
    path::{Path, PathBuf},
};

use proc_macro2::{TokenStream, TokenTree};
use syn::{
    Attribute, ImplItem, Item, Visibility,
    visit::{self, Visit},
};

/// The crates that have no circle.
const CRATES: &[&str] = &["pgoutput", "relay", "outbox-router", "simulation"];

#[test]
fn no_file_of_a_product_crate_imports_itself_through_other_files() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let circles: Vec<String> =
        CRATES.iter().flat_map(|name| circles(&crates.join(name).join("src"))).collect();
    assert!(circles.is_empty(), "circles of imports:\n\n{}", circles.join("\n"));
}

type ModuleId = usize;

/// What one module says, its tests left out.
#[derive(Default)]
struct Module {
    parent: ModuleId,
    /// Relative to the source directory.
    file: PathBuf,
    children: BTreeMap<String, ModuleId>,
    items: BTreeSet<String>,
    /// By the name that the module gives them.
    imports: BTreeMap<String, Import>,
    /// Every path in the code.
    paths: BTreeSet<Vec<String>>,
}

struct Import {
    path: Vec<String>,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Private,
    ReExport,
}

/// What a path leads to.
#[derive(Clone, Copy)]
enum Target<'t> {
    Module(ModuleId),
    /// Defined in this file under this name.
    Item(&'t Path, &'t str),
}

/// The modules of one source tree; the first is the root.
struct Tree {
    source: PathBuf,
    modules: Vec<Module>,
}

impl Tree {
    fn read(source: &Path, root: &str) -> Self {
        let mut tree = Self { source: source.to_owned(), modules: Vec::new() };
        tree.read_file(0, Path::new(root), Path::new(""));
        tree
    }

    /// Reads a file whose children are in `directory`.
    fn read_file(&mut self, parent: ModuleId, file: &Path, directory: &Path) -> ModuleId {
        let text = fs::read_to_string(self.source.join(file)).expect("a source file");
        let parsed = syn::parse_file(&text).expect("Rust");
        self.add(parent, file, directory, &parsed.items)
    }

    fn add(&mut self, parent: ModuleId, file: &Path, directory: &Path, items: &[Item]) -> ModuleId {
        let id = self.modules.len();
        self.modules.push(Module { parent, file: file.to_owned(), ..Module::default() });
        let mut reader = Reader { tree: self, id, directory: directory.to_owned() };
        items.iter().for_each(|item| reader.visit_item(item));
        id
    }

    /// Where `path` leads to from this module. `None`: out of the crate.
    fn resolve<'t>(&'t self, from: ModuleId, path: &'t [String]) -> Option<Target<'t>> {
        let (mut target, mut is_inside) = (Target::Module(from), false);
        for name in path {
            let Target::Module(module) = target else { break };
            target = match name.as_str() {
                "crate" => Target::Module(0),
                "self" => target,
                "super" => Target::Module(self.modules[module].parent),
                name => match self.step(module, name) {
                    Some(target) => target,
                    // What a macro defines stands where the macro is called.
                    None if is_inside => Target::Item(&self.modules[module].file, name),
                    None => return None,
                },
            };
            is_inside = true;
        }
        Some(target)
    }

    fn step<'t>(&'t self, module: ModuleId, name: &'t str) -> Option<Target<'t>> {
        let Module { file, children, items, imports, .. } = &self.modules[module];
        if let Some(child) = children.get(name) {
            return Some(Target::Module(*child));
        }
        if items.contains(name) {
            return Some(Target::Item(file, name));
        }
        let Import { path, .. } = imports.get(name)?;
        let is_crate = path.first().is_some_and(|first| first == name);
        if is_crate { None } else { self.resolve(module, path) }
    }

    /// For each file those that it imports, with the names.
    fn imports(&self) -> Graph<'_> {
        let mut graph = Graph::new();
        for (id, module) in self.modules.iter().enumerate() {
            let private = module.imports.values().filter(|import| import.kind == Kind::Private);
            let paths = private.map(|import| &import.path).chain(&module.paths);
            for path in paths {
                if let Some(Target::Item(file, name)) = self.resolve(id, path)
                    && file != module.file
                {
                    let from = graph.entry(&module.file).or_default();
                    from.entry(file).or_default().insert(name);
                }
            }
        }
        graph
    }
}

type Graph<'t> = BTreeMap<&'t Path, BTreeMap<&'t Path, BTreeSet<&'t str>>>;

/// Fills a module, and reads its children.
struct Reader<'t> {
    tree: &'t mut Tree,
    id: ModuleId,
    directory: PathBuf,
}

impl Reader<'_> {
    fn module(&mut self) -> &mut Module {
        &mut self.tree.modules[self.id]
    }

    fn imports(&mut self, before: &[String], tree: &syn::UseTree, kind: Kind) {
        let with = |name: &syn::Ident| [before, &[name.to_string()]].concat();
        let (path, name) = match tree {
            syn::UseTree::Path(path) => return self.imports(&with(&path.ident), &path.tree, kind),
            syn::UseTree::Group(group) => {
                return group.items.iter().for_each(|tree| self.imports(before, tree, kind));
            }
            syn::UseTree::Glob(_) => panic!("cannot be followed: use {}::*", before.join("::")),
            syn::UseTree::Name(name) => (with(&name.ident), &name.ident),
            syn::UseTree::Rename(rename) => (with(&rename.ident), &rename.rename),
        };
        // `self` in braces is the module before them.
        let is_module = path.len() > 1 && path.last().is_some_and(|last| last == "self");
        let path = if is_module { before.to_vec() } else { path };
        let name = if name == "self" { path.last().cloned() } else { Some(name.to_string()) };
        self.module().imports.extend(name.map(|name| (name, Import { path, kind })));
    }

    fn child(&mut self, item: &syn::ItemMod) {
        let name = item.ident.to_string();
        let directory = self.directory.join(&name);
        let child = match &item.content {
            Some((_, items)) => {
                let file = self.module().file.clone();
                self.tree.add(self.id, &file, &directory, items)
            }
            None => {
                let path = item.attrs.iter().find(|attribute| attribute.path().is_ident("path"));
                assert!(path.is_none(), "#[path] cannot be followed: mod {name}");
                let beside = directory.with_extension("rs");
                let is_beside = self.tree.source.join(&beside).is_file();
                let file = if is_beside { beside } else { directory.join("mod.rs") };
                self.tree.read_file(self.id, &file, &directory)
            }
        };
        self.module().children.insert(name, child);
    }

    /// Paths in the arguments of a macro.
    fn tokens(&mut self, tokens: TokenStream) {
        let (mut path, mut colons) = (Vec::new(), 0);
        for token in tokens {
            match token {
                TokenTree::Ident(name) if colons == 2 => path.push(name.to_string()),
                TokenTree::Ident(name) => {
                    self.module()
                        .paths
                        .insert(std::mem::replace(&mut path, vec![name.to_string()]));
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => {
                    colons += 1;
                    continue;
                }
                TokenTree::Group(group) => self.tokens(group.stream()),
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
            colons = 0;
        }
        self.module().paths.insert(path);
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        let (attributes, name) = described(item);
        if is_for_tests(attributes) {
            return;
        }
        if let Some(name) = name {
            self.module().items.insert(name.to_string());
        }
        if let Item::Mod(child) = item {
            self.child(child);
        } else if let Item::Use(item) = item {
            let is_private = matches!(item.vis, Visibility::Inherited);
            let kind = if is_private { Kind::Private } else { Kind::ReExport };
            self.imports(&[], &item.tree, kind);
        } else {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item(&mut self, item: &'ast ImplItem) {
        if !matches!(item, ImplItem::Fn(function) if is_for_tests(&function.attrs)) {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if path.leading_colon.is_none() {
            self.module().paths.insert(names);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, called: &'ast syn::Macro) {
        self.tokens(called.tokens.clone());
        visit::visit_macro(self, called);
    }
}

fn described(item: &Item) -> (&[Attribute], Option<&syn::Ident>) {
    match item {
        Item::Const(item) => (&item.attrs, Some(&item.ident)),
        Item::Enum(item) => (&item.attrs, Some(&item.ident)),
        Item::Fn(item) => (&item.attrs, Some(&item.sig.ident)),
        Item::Macro(item) => (&item.attrs, item.ident.as_ref()),
        Item::Static(item) => (&item.attrs, Some(&item.ident)),
        Item::Struct(item) => (&item.attrs, Some(&item.ident)),
        Item::Trait(item) => (&item.attrs, Some(&item.ident)),
        Item::Type(item) => (&item.attrs, Some(&item.ident)),
        Item::Union(item) => (&item.attrs, Some(&item.ident)),
        Item::Impl(item) => (&item.attrs, None),
        Item::Mod(item) => (&item.attrs, None),
        Item::Use(item) => (&item.attrs, None),
        Item::ExternCrate(_) | Item::ForeignMod(_) | Item::TraitAlias(_) | _ => (&[], None),
    }
}

fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.parse_args::<syn::Path>().is_ok_and(|path| path.is_ident("test"))
    })
}

/// For each file that reaches itself the shortest way round, as lines of text.
fn circles(source: &Path) -> Vec<String> {
    let roots = ["lib.rs", "main.rs"].into_iter().filter(|root| source.join(root).is_file());
    let mut circles = Vec::new();
    for root in roots {
        let tree = Tree::read(source, root);
        let graph = tree.imports();
        let ways: BTreeSet<Vec<&Path>> =
            graph.keys().filter_map(|file| way_back(&graph, file)).map(rotated).collect();
        circles.extend(ways.iter().map(|way| printed(source, &graph, way)));
    }
    circles
}

/// The files on the shortest way from `start` back to it, without the end.
fn way_back<'t>(graph: &Graph<'t>, start: &'t Path) -> Option<Vec<&'t Path>> {
    let mut ways = VecDeque::from([vec![start]]);
    let mut seen = BTreeSet::new();
    while let Some(way) = ways.pop_front() {
        for next in graph.get(way.last()?)?.keys().filter(|next| graph.contains_key(**next)) {
            if *next == start {
                return Some(way);
            }
            if seen.insert(*next) {
                ways.push_back([&way[..], &[*next]].concat());
            }
        }
    }
    None
}

/// From its first file on, so that each circle is circles once.
fn rotated(mut way: Vec<&Path>) -> Vec<&Path> {
    let first = (0..way.len()).min_by_key(|index| way[*index]).unwrap_or(0);
    way.rotate_left(first);
    way
}

fn printed(source: &Path, graph: &Graph<'_>, way: &[&Path]) -> String {
    let mut text = format!("in {}:\n", source.display());
    for (from, to) in way.iter().zip(way.iter().cycle().skip(1)) {
        let names: Vec<&str> = graph[from][to].iter().copied().collect();
        text += &format!("  {} -> {}: {}\n", from.display(), to.display(), names.join(", "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The circles of a made-up tree, without the line that names its directory.
    fn circles_of(files: &[(&str, &str)]) -> Vec<String> {
        let source = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = source.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let circles = circles(source.path()).into_iter();
        circles.map(|circle| circle.split_once('\n').unwrap().1.to_owned()).collect()
    }

    #[test]
    fn a_line_of_imports_is_no_circle() {
        let none = circles_of(&[
            ("lib.rs", "mod a; pub mod b; pub use b::B; mod tests_of_a;"),
            ("a.rs", "use crate::B; pub struct A(B); #[cfg(test)] mod tests { use crate::b::C; }"),
            ("b/mod.rs", "mod c; pub use c::C; pub struct B;"),
            ("b/c.rs", "use super::B; pub struct C(B);"),
            ("tests_of_a.rs", "use std::fmt; use crate::a::A; impl fmt::Debug for A {}"),
        ]);
        assert_eq!(none, Vec::<String>::new());
    }

    #[test]
    fn a_circle_through_a_re_export_is_reported_with_its_names() {
        let circles = circles_of(&[
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "use super::b::{self, Shown as Other}; pub struct A(Other, b::Shown);"),
            ("b/mod.rs", "mod c; pub use c::Shown;"),
            ("b/c.rs", "pub struct Shown(Option<crate::a::A>);"),
        ]);
        assert_eq!(circles, ["  a.rs -> b/c.rs: Shown\n  b/c.rs -> a.rs: A\n"]);
    }

    #[test]
    fn a_parent_that_uses_a_child_which_uses_its_types_is_a_circle() {
        let circles = circles_of(&[
            ("main.rs", "mod a; struct Top; fn main() { println!(\"{}\", a::Child::NAME); }"),
            ("a.rs", "use super::Top; pub struct Child(Top); impl Child { const NAME: u8 = 1; }"),
        ]);
        assert_eq!(circles, ["  a.rs -> main.rs: Top\n  main.rs -> a.rs: Child\n"]);
    }

    #[test]
    fn a_re_export_that_the_file_itself_uses_is_an_import() {
        let circles = circles_of(&[
            ("lib.rs", "mod a; pub use a::A; pub struct Top; fn f(_: A) {}"),
            ("a.rs", "pub struct A(crate::Top);"),
        ]);
        assert_eq!(circles, ["  a.rs -> lib.rs: Top\n  lib.rs -> a.rs: A\n"]);
    }
}
