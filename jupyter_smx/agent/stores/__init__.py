"""Where bytes of inputs and outputs lie: folders, object stores, and what a host keeps of them."""
