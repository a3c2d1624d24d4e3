//! Trees as text and pictures.
//!
//! | form | constituency trees | dependency trees |
//! |---|---|---|
//! | indented | nested brackets; parts that fit in a line are on one line | every word below its head |
//! | bracketed | one line per tree, as in treebanks | none |
//! | CoNLL-U | none | ten columns, one line per word |
//! | SVG | a drawing | a drawing |

mod bracketed;
mod dependency;
mod drawing;
#[cfg(test)]
mod tests;

pub use drawing::Drawing;

use crate::error::{Error, Result};
use crate::model::{NamedTree, TreeKind};
use crate::suggest;

/// The width of a line of an indented tree.
const LINE: usize = 80;

/// Deeper levels of an indented tree are not indented further.
const MOST_INDENTED: usize = 60;

/// A form of printed trees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeForm {
    /// For people: one node per line, or a part of the tree if it fits in a line.
    Indented,
    /// One line per tree with nested brackets: `(S (NP the dog) (VP barks))`.
    Bracketed,
    /// The ten columns of CoNLL-U, one line per word.
    Conllu,
    /// A drawing.
    Svg,
}

impl TreeForm {
    /// All forms.
    pub const ALL: [TreeForm; 4] = [TreeForm::Indented, TreeForm::Bracketed, TreeForm::Conllu, TreeForm::Svg];

    /// The name of the form.
    pub fn name(self) -> &'static str {
        match self {
            TreeForm::Indented => "indented",
            TreeForm::Bracketed => "bracketed",
            TreeForm::Conllu => "conllu",
            TreeForm::Svg => "svg",
        }
    }

    /// The form of this name.
    ///
    /// # Errors
    /// If there is none.
    pub fn named(name: &str) -> Result<Self> {
        TreeForm::ALL.into_iter().find(|form| form.name() == name).ok_or_else(|| {
            let hint = suggest::hint(name, &TreeForm::ALL.map(TreeForm::name));
            Error::argument("trees", format!("there is no form `{name}`{hint}"))
        })
    }

    /// True if trees of this kind have the form.
    pub fn is_for(self, kind: TreeKind) -> bool {
        match self {
            TreeForm::Indented | TreeForm::Svg => true,
            TreeForm::Bracketed => kind == TreeKind::Constituency,
            TreeForm::Conllu => kind == TreeKind::Dependency,
        }
    }

    /// An error unless a model has trees of this form; `kind` is the model's.
    ///
    /// # Errors
    /// If states are not trees, or have no such form.
    pub fn check(self, kind: Option<TreeKind>) -> Result<()> {
        let message = match kind {
            Some(kind) if self.is_for(kind) => return Ok(()),
            None => "the states of this model are not trees".to_owned(),
            Some(kind) => {
                let forms = TreeForm::ALL.into_iter().filter(|form| form.is_for(kind));
                let forms: Vec<&str> = forms.map(TreeForm::name).collect();
                let which = match kind {
                    TreeKind::Constituency => "constituency",
                    TreeKind::Dependency => "dependency",
                };
                format!("{which} trees have no form {}; expected {}", self.name(), forms.join(", "))
            }
        };
        Err(Error::argument("trees", message))
    }
}

/// The tree in a form; `None` if trees of its kind do not have it. Only bracketed trees have no line end.
///
/// ```
/// use zhat::model::{NamedTree, TreeEntry};
/// use zhat::report::tree::{TreeForm, show};
/// let entry = |level, name: &str, is_word| TreeEntry { level, name: name.into(), is_word };
/// let entries = vec![entry(0, "S", false), entry(1, "NP", false), entry(2, "she", true), entry(1, "runs", true)];
/// let tree = NamedTree::Constituency(entries);
/// assert_eq!(show(&tree, TreeForm::Bracketed).as_deref(), Some("(S (NP she) runs)"));
/// assert_eq!(show(&tree, TreeForm::Conllu), None);
/// ```
pub fn show(tree: &NamedTree, form: TreeForm) -> Option<String> {
    match (tree, form) {
        (tree, TreeForm::Svg) => Some(Drawing::of(tree).svg()),
        (NamedTree::Constituency(entries), TreeForm::Indented) => Some(bracketed::indented(entries, LINE)),
        (NamedTree::Constituency(entries), TreeForm::Bracketed) => Some(bracketed::one_line(entries)),
        (NamedTree::Constituency(_), TreeForm::Conllu) => None,
        (NamedTree::Dependency { words, heads, labels }, TreeForm::Indented) => {
            Some(dependency::indented(words, heads, labels))
        }
        (NamedTree::Dependency { words, heads, labels }, TreeForm::Conllu) => {
            Some(dependency::conllu(words, heads, labels))
        }
        (NamedTree::Dependency { .. }, TreeForm::Bracketed) => None,
    }
}
