//! Names and the boundary of the root.
use super::*;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

struct Tree(PathBuf);

impl Tree {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("lowwater-files-{name}-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("root/sub")).unwrap();
        std::fs::write(dir.join("secret"), "secret").unwrap();
        std::fs::write(dir.join("root/sub/file"), "text").unwrap();
        Self(dir)
    }

    fn root(&self) -> Root {
        Root::open(&self.0.join("root"), true).unwrap()
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn names_that_could_lead_out_are_refused() {
    assert_eq!(names("/a//b%20c/"), Some(vec![b"a".to_vec(), b"b c".to_vec()]));
    assert_eq!(names("/"), Some(vec![]));
    for bad in ["/..", "/a/../../b", "/%2e%2e/b", "/a/%2E%2e", "/..%2fb", "/a%00b", "/%", "/%4", "/%zz", "/."]
    {
        assert_eq!(names(bad), None, "{bad}");
    }
}

#[test]
fn links_are_followed_inside_and_refused_outside() {
    let tree = Tree::new("links");
    symlink("sub/file", tree.0.join("root/inside")).unwrap();
    symlink("../secret", tree.0.join("root/outside")).unwrap();
    symlink(tree.0.join("secret"), tree.0.join("root/absolute")).unwrap();
    symlink("../..", tree.0.join("root/sub/up")).unwrap();
    let root = tree.root();
    let get = |path: &str| root.entry(&names(path).unwrap());
    assert!(matches!(get("/inside"), Ok(Entry::File(_, 4))));
    assert!(matches!(get("/sub"), Ok(Entry::Dir(_))));
    for out in ["/outside", "/absolute", "/sub/up/secret", "/sub/up"] {
        assert_eq!(get(out).err().map(|e| e.kind()), Some(io::ErrorKind::PermissionDenied), "{out}");
    }
    assert!(root.create(&names("/sub/up/new").unwrap()).is_err());
    assert_eq!(get("/none").err().map(|e| e.kind()), Some(io::ErrorKind::NotFound));
}

#[test]
fn an_upload_replaces_a_link_and_not_what_it_points_to() {
    let tree = Tree::new("replace");
    symlink("../secret", tree.0.join("root/name")).unwrap();
    let (upload, _file) = tree.root().create(&names("/name").unwrap()).unwrap();
    assert!(upload.keep().unwrap());
    assert_eq!(std::fs::read(tree.0.join("secret")).unwrap(), b"secret");
    assert_eq!(std::fs::read(tree.0.join("root/name")).unwrap(), b"");
}

#[test]
fn nothing_is_made_where_nobody_said_writable() {
    let tree = Tree::new("read");
    let root = Root::open(&tree.0.join("root"), false).unwrap();
    let refused = root.create(&names("/sub/new").unwrap()).err().map(|e| e.kind());
    assert_eq!(refused, Some(io::ErrorKind::PermissionDenied));
    assert_eq!(std::fs::read_dir(tree.0.join("root/sub")).unwrap().count(), 1);
    assert!(root.entry(&names("/sub/file").unwrap()).is_ok());
}

#[test]
fn an_upload_that_is_given_up_leaves_nothing() {
    let tree = Tree::new("abort");
    let (upload, _file) = tree.root().create(&names("/sub/new").unwrap()).unwrap();
    assert_eq!(std::fs::read_dir(tree.0.join("root/sub")).unwrap().count(), 2);
    drop(upload);
    assert_eq!(std::fs::read_dir(tree.0.join("root/sub")).unwrap().count(), 1);
}

#[test]
fn listings_escape_names() {
    let tree = Tree::new("list");
    std::fs::write(tree.0.join("root/sub/<b> &%"), "").unwrap();
    let Ok(Entry::Dir(dir)) = tree.root().entry(&names("/sub").unwrap()) else { panic!("a directory") };
    let page = listing(&dir, &names("/sub").unwrap()).unwrap();
    assert!(page.contains("<a href=\"%3Cb%3E%20%26%25\">&lt;b&gt; &amp;%</a>  0"), "{page}");
    assert!(page.contains("file</a>  4"), "{page}");
}

#[test]
fn an_entry_of_which_nothing_is_known_is_no_link() {
    assert_eq!(told(None), ("", "?".to_owned()));
    assert_eq!(told(Some((FileType::Symlink, 9))), ("", "link".to_owned()));
    assert_eq!(told(Some((FileType::RegularFile, 9))), ("", "9".to_owned()));
    assert_eq!(told(Some((FileType::Directory, 64))), ("/", "64".to_owned()));
}

#[test]
fn a_listing_tells_what_it_leaves_out_and_nothing_from_outside() {
    let tree = Tree::new("many");
    symlink("../../secret", tree.0.join("root/sub/out")).unwrap();
    std::fs::create_dir(tree.0.join("root/sub/dir")).unwrap();
    let Ok(Entry::Dir(dir)) = tree.root().entry(&names("/sub").unwrap()) else { panic!("a directory") };
    let page = listing(&dir, &names("/sub").unwrap()).unwrap();
    assert!(
        page.contains("out</a>  link") && page.contains("dir/</a>  ") && !page.contains("more"),
        "{page}"
    );
    let Ok(Entry::Dir(dir)) = tree.root().entry(&names("/sub").unwrap()) else { panic!("a directory") };
    assert!(listed(&dir, &[], 1).unwrap().contains("2 more are not listed"));
}
