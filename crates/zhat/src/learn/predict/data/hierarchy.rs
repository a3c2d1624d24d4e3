//! Class hierarchies: a list of paths such as `1,1/2,1/2/a`, or of edges from `root`.

use std::collections::HashMap;

use super::fail;
use crate::error::Result;
use crate::learn::predict::form::topological;

/// Nodes by path, with their parents.
#[derive(Clone, Debug, Default)]
pub(super) struct Classes {
    pub names: Vec<String>,
    pub parents: Vec<Option<usize>>,
    places: HashMap<String, u32>,
}

impl Classes {
    /// Known nodes.
    pub fn of(names: &[String], parents: &[Option<usize>]) -> Self {
        let places = names.iter().enumerate().map(|(place, name)| (name.clone(), place as u32)).collect();
        Classes { names: names.to_vec(), parents: parents.to_vec(), places }
    }

    /// The declaration of an ARFF file: a list of paths, or of edges `root/a,a/b` of a tree.
    pub fn parse(list: &str, source: &str, line: usize) -> Result<Self> {
        let paths: Vec<&str> = list.split(',').map(str::trim).filter(|path| !path.is_empty()).collect();
        if paths.is_empty() {
            return Err(fail(source, line, "the hierarchy has no classes"));
        }
        let mut classes = Classes::default();
        if paths.iter().any(|path| path.starts_with("root/")) {
            classes.edges(&paths, source, line)?;
        } else {
            for path in paths {
                check_path(path, source, line)?;
                classes.insert(path);
            }
        }
        Ok(classes)
    }

    /// The node of a path, which is added with its ancestors if it is new.
    pub fn insert(&mut self, path: &str) -> u32 {
        if let Some(&place) = self.places.get(path) {
            return place;
        }
        let parent = path.rfind('/').map(|at| self.insert(&path[..at]) as usize);
        let place = self.names.len() as u32;
        self.names.push(path.to_owned());
        self.parents.push(parent);
        self.places.insert(path.to_owned(), place);
        place
    }

    fn edges(&mut self, edges: &[&str], source: &str, line: usize) -> Result<()> {
        for edge in edges {
            let Some((parent, child)) = edge.split_once('/').filter(|(_, child)| !child.contains('/')) else {
                return Err(fail(source, line, format!("`{edge}` is no edge; expected parent/child")));
            };
            let mut node = |name: &str| {
                *self.places.entry(name.to_owned()).or_insert_with(|| {
                    self.names.push(name.to_owned());
                    self.parents.push(None);
                    self.names.len() as u32 - 1
                }) as usize
            };
            let (above, below) =
                if parent == "root" { (None, node(child)) } else { (Some(node(parent)), node(child)) };
            if above.is_some() {
                match self.parents[below] {
                    Some(other) if Some(other) != above => {
                        let message = format!(
                            "class `{child}` has the parents `{}` and `{parent}`: trees only",
                            self.names[other]
                        );
                        return Err(fail(source, line, message));
                    }
                    _ => self.parents[below] = above,
                }
            }
        }
        if topological(&self.parents).is_none() {
            return Err(fail(source, line, "the classes form a cycle: trees only"));
        }
        Ok(())
    }

    /// The nodes of a cell such as `1/2@1/3`, with all their ancestors.
    pub fn nodes(&self, cell: &str, column: &str, source: &str, line: usize) -> Result<Vec<u32>> {
        let mut nodes = Vec::new();
        for path in cell.split('@').map(str::trim).filter(|path| !path.is_empty()) {
            let Some(&place) = self.places.get(path) else {
                let message = format!("column {column}: the class `{path}` is not in the hierarchy");
                return Err(fail(source, line, message));
            };
            let mut at = Some(place as usize);
            while let Some(node) = at {
                nodes.push(node as u32);
                at = self.parents[node];
            }
        }
        Ok(nodes)
    }
}

/// Checks that a path has no empty parts.
pub(super) fn check_path(path: &str, source: &str, line: usize) -> Result<()> {
    if path.split('/').any(str::is_empty) {
        return Err(fail(source, line, format!("the path `{path}` has an empty part")));
    }
    Ok(())
}
