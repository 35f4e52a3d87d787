"""What a release needs: what it is made of, known weaknesses of that, and a dry run."""
