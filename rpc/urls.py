from django.urls import re_path

from rpc.viewsets import RpcView

# An id may hold any character, also slashes.
urlpatterns = [re_path(r"^relayers/(?P<relayer_id>[\s\S]+)/rpc/?$", RpcView.as_view(), name="relayer-rpc")]
