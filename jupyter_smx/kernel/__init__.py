"""The kernel's side: magics, handle, card and variables. It never imports tornado, SQL or an engine."""
