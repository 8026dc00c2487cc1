"""What a user of 6b340c9 could set of the magics: each of their own traits."""

c = get_config()

c.SmxMagics.card = "widget"
c.SmxMagics.engine = "docker"
c.SmxMagics.image = "lab/base:2"
c.SmxMagics.instance_type = "lab.small"
c.SmxMagics.keep_alive = "10m"
