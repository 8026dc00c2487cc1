"""What a user of 6b340c9 could set of the server extension: each of its own traits."""

c = get_config()

c.SmxServerExtension.message_urls = ["json://localhost:9/jobs"]
c.SmxServerExtension.message_urls_file = "addresses.txt"
