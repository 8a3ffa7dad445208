"""The machines of a fleet: who they are, reaching them over ssh, and Ray on them."""
