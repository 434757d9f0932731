"""Tools for the project itself: lock files, the software bill of materials and the audit of packages."""
