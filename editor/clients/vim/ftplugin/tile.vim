setlocal commentstring=//\ %s shiftwidth=2 expandtab
