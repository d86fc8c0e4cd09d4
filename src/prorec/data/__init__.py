"""Where interactions come from: files, data sets, a synthetic world; and how they are split and disturbed."""
