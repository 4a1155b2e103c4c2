from django.urls import re_path

from relayers.viewsets import RelayerListView

urlpatterns = [re_path(r"^relayers/?$", RelayerListView.as_view(), name="relayer-list")]
