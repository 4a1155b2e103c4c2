"""The one form of dates: as `relayer_service.admin.dates` writes them, for fields that Django itself shows."""

DATE_FORMAT = SHORT_DATE_FORMAT = "Y-m-d"
TIME_FORMAT = r"H:i \U\T\C"
DATETIME_FORMAT = SHORT_DATETIME_FORMAT = r"Y-m-d H:i \U\T\C"
