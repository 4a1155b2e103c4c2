"""The admin site: base classes shared by all apps, and the pages of this one."""
